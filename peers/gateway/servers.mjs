// The servers of the gateway: what its file says of each, and the processes of those on HTTP.

import { fileURLToPath } from 'node:url';
import { PEERS } from '../lib/matrix.mjs';
import { announced, start } from '../lib/processes.mjs';

const at = (file) => fileURLToPath(new URL(`../${file}`, import.meta.url));
const EVERYTHING = at('node_modules/@modelcontextprotocol/server-everything/dist/index.js');
const READY_MS = 20_000;
const START_TIMEOUT = '12s'; // of the one that hangs

const everything = (mode) => ['env', 'PORT=0', process.execPath, '--import', at('lib/loopback.mjs'), EVERYTHING, mode];
const fixture = (peer, transport, era) => [...PEERS[peer]('server'), '--transport', transport, '--era', era];
const bad = (mode) => [process.execPath, at('gateway/bad.mjs'), mode];

/** Those of other people that wait for connections, with the path they are asked at. */
const ELSEWHERE = {
  'everything-http': { type: 'http', argv: everything('streamableHttp'), path: '/mcp' },
  'everything-sse': { type: 'sse', argv: everything('sse'), path: '/sse' },
  rmcp: { type: 'http', argv: fixture('rmcp', 'http', 'legacy'), path: '/mcp' },
  ts2: { type: 'http', argv: fixture('ts2', 'http', 'modern'), path: '/mcp' },
};

/** Those that the gateway starts. */
const OURS = {
  'everything-stdio': { argv: [process.execPath, EVERYTHING, 'stdio'] },
  py: { argv: fixture('py', 'stdio', 'both') },
  crashes: { argv: bad('crashes') },
  floods: { argv: bad('floods') },
  hangs: { argv: bad('hangs'), startTimeout: START_TIMEOUT },
};

export const EVERYTHINGS = ['everything-http', 'everything-sse', 'everything-stdio'];
export const FIXTURES = ['py', 'rmcp', 'ts2'];
export const BAD = ['crashes', 'floods', 'hangs'];

/** Starts those elsewhere; gives their processes and what the file says of all. */
export async function begin({ podman, mark }) {
  const servers = {};
  const starting = Object.entries(ELSEWHERE).map(async ([name, { type, argv, path }]) => {
    const [handle, url] = await announced(
      (seen) => start(name, argv, { onErr: seen }),
      (line) => /^listening (http:\S+)$/.exec(line)?.[1],
      READY_MS,
    );
    servers[name] = { type, url: new URL(path, url).href };
    return handle;
  });
  const handles = await Promise.all(starting);
  for (const [name, { argv: [command, ...args], ...more }] of Object.entries(OURS)) {
    servers[name] = { command, args, env: mark, ...more };
  }
  if (podman) {
    const [command, ...args] = podman.server();
    servers.container = { command, args, env: mark };
  }
  // A resource that several have is asked for at the first. In a group a fixture is the first.
  const others = Object.keys(servers).filter((name) => !FIXTURES.includes(name));
  const groups = Object.fromEntries(FIXTURES.map((name) => [`with-${name}`, [name, ...others]]));
  return { handles, servers, groups };
}
