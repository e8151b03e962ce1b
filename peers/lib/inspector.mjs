// Clients and servers that are programs: the Inspector's command line and our
// own, `server-everything` and our `demo`, through the bridge or directly.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ends, runClient } from './cell.mjs';
import { built } from './matrix.mjs';
import { open } from './route.mjs';

const at = (file) => fileURLToPath(new URL(`../${file}`, import.meta.url));
const PACKAGES = 'node_modules/@modelcontextprotocol';
const INSPECTOR = [process.execPath, at(`${PACKAGES}/inspector/clients/launcher/build/index.js`), '--cli'];
const EVERYTHING = at(`${PACKAGES}/server-everything/dist/index.js`);
const CALL_MS = 30_000;

/** What a client asks; `echoed` is what the server makes of the word `across`. */
const CALLS = {
  'tools/list': (answer) => answer.tools.some((tool) => tool.name === 'echo'),
  'tools/call': (answer, { echoed }) => answer.content[0].text === echoed,
  'resources/list': (answer) => answer.resources.length > 0,
  'prompts/list': (answer) => answer.prompts.length > 0,
};

const CLIENTS = {
  inspector: {
    argv: (method, { url, command }, transport) => [
      ...INSPECTOR, ...(url ? [url, '--transport', transport] : command), '--method', method,
      ...(method === 'tools/call' ? ['--tool-name', 'echo', '--tool-arg', 'message=across'] : []),
    ],
  },
  switchboard: {
    argv: (method, { url, command }, transport) => {
      const words = { 'tools/list': 'tools', 'tools/call': 'call', 'resources/list': 'resources', 'prompts/list': 'prompts' };
      return [
        built('switchboard'), words[method], ...(url ? [url] : []),
        ...(method === 'tools/call' ? ['echo', 'message=across'] : []), '--output', 'json',
        ...(url ? ['--transport', `${transport}-only`] : ['--', ...command]),
      ];
    },
  },
};

const EVERYTHING_MODES = { stdio: 'stdio', http: 'streamableHttp', sse: 'sse' };
const SERVERS = {
  everything: {
    echoed: 'Echo: across',
    argv: (up, port) =>
      up === 'stdio'
        ? [process.execPath, EVERYTHING, 'stdio']
        : ['env', `PORT=${port}`, process.execPath, '--import', at('lib/loopback.mjs'), EVERYTHING, EVERYTHING_MODES[up]],
  },
  demo: {
    echoed: 'across',
    argv: (up, port) => [built('switchboard'), 'demo', ...(up === 'stdio' ? [] : ['--http', '--port', port])],
  },
};

const cellOf = (client, down, server, up) => ({
  name: `${client}/${down} -> ${server}/${up}`, inspector: true, client, down, server, up, features: Object.keys(CALLS),
});

/** The cells; in direct mode one transport serves both sides. */
export function inspectorCells(direct) {
  const pairs = [['stdio', 'stdio'], ['http', 'stdio'], ['stdio', 'http'], ['http', 'http'], ['sse', 'stdio']];
  const chosen = direct ? pairs.filter(([down, up]) => down === up) : pairs;
  return chosen.map(([down, up]) => cellOf('inspector', down, 'everything', up));
}

/** The Inspector with our server, and our command line with theirs. */
export function ourInspectorCells() {
  const pairs = [['inspector', 'demo'], ['switchboard', 'everything']];
  return pairs.flatMap(([client, server]) => Object.keys(EVERYTHING_MODES).map((on) => cellOf(client, on, server, on)));
}

async function oneCall(method, { client, server, down }, route, env) {
  const { handle, lines, problems } = await runClient(CLIENTS[client].argv(method, route, down), { ms: CALL_MS, env });
  const detail = () => [...problems, `exit ${handle.code}`, ...handle.kept.slice(-3), lines.join(' ')].join('; ').slice(0, 600);
  try {
    const holds = CALLS[method](JSON.parse(lines.join('\n')), SERVERS[server]);
    const ok = handle.code === 0 && problems.length === 0 && holds;
    return [{ check: method, ok, detail: ok ? undefined : detail() }, handle];
  } catch (error) {
    return [{ check: method, ok: false, detail: `${error.message}; ${detail()}` }, handle];
  }
}

export async function runInspectorCell(cell, { bridge }) {
  const { down, server, up } = cell;
  const home = fs.mkdtempSync(path.join(os.tmpdir(), 'inspector-'));
  const env = { HOME: home };
  const command = (port) => SERVERS[server].argv(up, port);
  const results = [];
  const handles = [];
  try {
    const route = await open({ bridge, down, up, command, env, ours: server === 'demo' });
    // Whoever serves both transports, or was not written by us, names only the newer one.
    if (down === 'sse') route.url = route.url.replace(/\/mcp$/, '/sse');
    for (const method of Object.keys(CALLS)) {
      const [verdict, handle] = await oneCall(method, cell, route, env);
      results.push(verdict);
      handles.push(handle);
    }
    results.push(ends(await route.close()));
    handles.unshift(...route.handles);
  } catch (error) {
    results.push({ check: 'start', ok: false, detail: error.message.slice(0, 600) });
  } finally {
    fs.rmSync(home, { recursive: true, force: true });
  }
  return { results, gaps: [], kept: handles.flatMap((one) => one.kept) };
}
