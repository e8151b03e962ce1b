// Processes of a cell: each leads its own group, keeps its last lines for the
// report, and is ended by its id. `endAll` is the last resort of the runner.

import { spawn } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';

export { pause };

const KEPT_LINES = 30;
const running = new Set();

function groupLives(pid) {
  try {
    process.kill(-pid, 0);
    return true;
  } catch {
    return false;
  }
}

function signalGroup(pid, signal) {
  try {
    process.kill(-pid, signal);
  } catch {
    // The group has ended already.
  }
}

function eachLine(stream, take) {
  let rest = '';
  stream.setEncoding('utf8');
  stream.on('data', (chunk) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop();
    lines.forEach(take);
  });
  stream.on('end', () => rest && take(rest));
}

/** Starts a command; `onOut` sees each line of its stdout and `onErr` of its stderr. */
export function start(name, [command, ...args], { onOut, onErr, env } = {}) {
  const child = spawn(command, args, {
    detached: true,
    env: { ...process.env, NO_PROXY: '127.0.0.1,localhost', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const kept = [];
  const keep = (line) => {
    const shown = `${name}: ${line.slice(0, 400)}`;
    if (shown === kept.at(-1)) return; // an SDK that retries says the same many times
    kept.push(shown);
    if (kept.length > KEPT_LINES) kept.shift();
  };
  const handle = { name, child, kept, code: undefined };
  running.add(handle);
  handle.ended = new Promise((resolve) => {
    child.on('error', (error) => {
      keep(`cannot start: ${error.message}`);
      handle.code = 127;
      resolve();
    });
    child.on('close', (code, signal) => {
      handle.code = code ?? signal;
      resolve();
    });
  });
  eachLine(child.stdout, (line) => onOut?.(line) ?? keep(line));
  eachLine(child.stderr, (line) => (keep(line), onErr?.(line)));
  return handle;
}

/** Waits for the end of the process and of its whole group; false when it takes longer. */
export async function gone(handle, ms) {
  const end = Date.now() + ms;
  await Promise.race([handle.ended, pause(ms)]);
  const { pid } = handle.child;
  while (pid && groupLives(pid) && Date.now() < end) await pause(50);
  return handle.code !== undefined && !(pid && groupLives(pid));
}

/** TERM, wait, KILL for the group; true when TERM was enough. */
export async function end(handle, ms = 5000) {
  const { pid } = handle.child;
  if (pid) signalGroup(pid, 'SIGTERM');
  const gentle = await gone(handle, ms);
  if (pid && !gentle) signalGroup(pid, 'SIGKILL');
  running.delete(handle);
  return gentle;
}

export function endAll() {
  for (const { child } of running) if (child.pid) signalGroup(child.pid, 'SIGKILL');
}

/** Resolves with the first value that `find` gives for a line; fails when the process ends or is late. */
export async function announced(begin, find, ms) {
  let found;
  const seen = new Promise((resolve) => {
    found = (line) => {
      const value = find(line);
      if (value) resolve(value);
    };
  });
  const handle = begin((line) => found(line));
  const value = await Promise.race([seen, handle.ended, pause(ms, undefined, { ref: false })]);
  if (typeof value === 'string') return [handle, value];
  await end(handle, 1000);
  throw new Error(`${handle.name} did not announce itself within ${ms} ms\n${handle.kept.join('\n')}`);
}

