// Who meets the gateway where, and what each checks there.

import { runClient, verdicts } from '../lib/cell.mjs';
import { PEERS } from '../lib/matrix.mjs';
import { BAD, EVERYTHINGS, FIXTURES } from './servers.mjs';

const RUN_MS = 180_000;
// A first call starts its server, beside those of all the others.
const PATIENCE = '30';
const CLIENTS = [['legacy', 'ts1'], ['modern', 'ts2']];
const ASKED = ['elicit', 'visit', 'sample', 'sample_tools', 'roots'];
const FIXTURE = ['listed', 'echo', 'unicode', 'big', 'progress', 'cancel', ...ASKED, 'log', 'parallel', 'unknown_tool'];
const EVERYTHING = ['listed', 'everything', 'everything_prompts', 'everything_progress', 'everything_elicit', 'everything_sample', 'everything_roots'];
const ALONE = ['connect', 'list', 'echo', 'progress', 'cancel', ...ASKED, 'log', 'parallel'];

const of = (server, checks) => checks.map((check) => `${check}@${server}`);

/** At the path of all, on one connection: everybody's everything. */
function together(containers) {
  return [
    'connect', 'names', 'deferred@hangs',
    ...FIXTURES.flatMap((name) => of(name, FIXTURE)),
    ...of('py', ['fixture_lists', 'updates']),
    // What the gateway lists of a server is what it hears itself: of one process that all share.
    ...of('rmcp', ['grows']), ...of('ts2', ['grows']),
    ...EVERYTHINGS.flatMap((name) => of(name, EVERYTHING)),
    // Of the same resource of three servers the first is asked.
    ...of(EVERYTHINGS[0], ['everything_resources', 'everything_updates']),
    ...EVERYTHINGS.flatMap((name) => of(name, ['everything_task'])),
    ...(containers ? ['listed@container', 'container@container'] : []),
    'deferred@hangs', 'listed@crashes', 'listed@floods',
  ];
}

/** The runs, those that take longest first. */
export function runs(containers) {
  const all = [];
  const add = (era, client, path, checks) => all.push({ name: `${era} ${client} at ${path}`, era, client, path, checks });
  for (const [era, client] of CLIENTS) add(era, client, '/mcp', together(containers));
  for (const [era, client] of CLIENTS) {
    for (const name of FIXTURES.slice(1)) {
      add(era, client, `/groups/with-${name}/mcp`, ['connect', ...of(name, ['fixture_lists', 'updates']), 'deferred@hangs']);
    }
    add(era, client, '/servers/py/mcp', [...ALONE, 'subscribe', 'list_changed']);
    for (const name of ['rmcp', 'ts2']) add(era, client, `/servers/${name}/mcp`, [...ALONE, 'updates', 'grows']);
    for (const name of EVERYTHINGS) {
      add(era, client, `/servers/${name}/mcp`, ['connect', ...EVERYTHING, 'everything_resources']);
    }
    if (containers) add(era, client, '/servers/container/mcp', ['connect', 'container']);
  }
  return all;
}

/** Those that call the bad ones, all the while. */
export function badRuns() {
  return CLIENTS.map(([era, client]) => ({
    name: `${era} ${client} with the bad ones`, era, client, path: '/mcp',
    checks: ['connect', ...BAD.flatMap((name) => of(name, ['fails'])), 'drowns@floods', 'echo@py'],
  }));
}

export async function runOne({ era, client, path, checks }, origin) {
  const { handle, lines, problems } = await runClient(
    [
      ...PEERS[client]('client'), '--era', era, '--transport', 'http', '--checks', checks.join(','),
      '--patience', PATIENCE, '--url', origin + path,
    ],
    { ms: RUN_MS },
  );
  const results = verdicts(lines, checks);
  if (problems.length) results.push({ check: 'client', ok: false, detail: problems.join('; ') });
  return { results, gaps: [], kept: handle.kept };
}
