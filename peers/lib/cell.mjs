// Runs one cell of the matrix and gives its checks as `{check, ok, detail}`.

import { PEERS } from './matrix.mjs';
import { end, gone, pause, start } from './processes.mjs';
import { open } from './route.mjs';

const CELL_MS = 150_000;

/** Runs `argv`, collects what `take` makes of its lines, and waits for the end of its group. */
export async function runClient(argv, { ms = CELL_MS, env } = {}) {
  const lines = [];
  const handle = start('client', argv, { env, onOut: (line) => lines.push(line) });
  await Promise.race([handle.ended, pause(ms)]);
  const problems = [];
  if (handle.code === undefined) problems.push(`the client did not end within ${ms} ms`);
  else if (!(await gone(handle, 7000))) problems.push('processes of the client were left over after 7 s');
  await end(handle, 1000);
  return { handle, lines, problems };
}

/** What a client printed of each check that was wanted of it, in this order. */
export function verdicts(lines, wanted) {
  const seen = [];
  for (const line of lines) {
    try {
      seen.push(JSON.parse(line));
    } catch {
      // Not a verdict; the missing check below says so.
    }
  }
  return wanted.map((check) => {
    const at = seen.findIndex((verdict) => verdict.check === check);
    return at < 0 ? { check, ok: false, detail: 'the client printed no verdict' } : seen.splice(at, 1)[0];
  });
}

/** The `ends` check gathers what did not end as it should. */
export function ends(problems) {
  return { check: 'ends', ok: problems.length === 0, detail: problems.join('; ') || undefined };
}

export async function runCell(cell, { bridge }) {
  const { era, down, up, features: checks, gaps } = cell;
  const command = (port) => [
    ...PEERS[cell.server]('server'), '--transport', up, '--era', cell.serverEra,
    ...(up === 'stdio' ? [] : ['--port', port]),
  ];
  let route;
  try {
    route = await open({ bridge, down, up, command, ours: cell.server === 'ours' });
  } catch (error) {
    const detail = error.message.split('\n')[0];
    return { results: checks.map((check) => ({ check, ok: false, detail })), gaps, kept: error.message.split('\n') };
  }
  // Our client finds the era by itself, but a server of both is asked for the one of the cell.
  const probe = cell.client === 'ours' && cell.serverEra !== 'both' ? ['--probe'] : [];
  const target = route.url ? ['--url', route.url] : ['--', ...route.command];
  const { handle, lines, problems } = await runClient([
    ...PEERS[cell.client]('client'), '--era', era, '--transport', down, '--checks', checks.join(','), ...probe, ...target,
  ]);
  problems.push(...(await route.close()));
  const kept = [...route.handles, handle].flatMap((one) => one.kept);
  return { results: [...verdicts(lines, checks), ends(problems)], gaps, kept };
}
