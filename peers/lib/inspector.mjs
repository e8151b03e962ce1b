// `server-everything` behind the bridge, driven by the Inspector's command line.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ends, runClient } from './cell.mjs';
import { open } from './route.mjs';

const at = (file) => fileURLToPath(new URL(`../${file}`, import.meta.url));
const PACKAGES = 'node_modules/@modelcontextprotocol';
const INSPECTOR = [process.execPath, at(`${PACKAGES}/inspector/clients/launcher/build/index.js`), '--cli'];
const EVERYTHING = at(`${PACKAGES}/server-everything/dist/index.js`);
const CALL_MS = 30_000;

const CALLS = {
  'tools/list': [[], (answer) => answer.tools.some((tool) => tool.name === 'echo')],
  'tools/call': [
    ['--tool-name', 'echo', '--tool-arg', 'message=across'],
    (answer) => answer.content[0].text === 'Echo: across',
  ],
  'resources/list': [[], (answer) => answer.resources.length > 0],
  'prompts/list': [[], (answer) => answer.prompts.length > 0],
};

/** The cells; in direct mode one transport serves both sides. */
export function inspectorCells(direct) {
  const pairs = [['stdio', 'stdio'], ['http', 'stdio'], ['stdio', 'http'], ['http', 'http'], ['sse', 'stdio']];
  const chosen = direct ? pairs.filter(([down, up]) => down === up) : pairs;
  return chosen.map(([down, up]) => ({ name: `inspector/${down} -> everything/${up}`, inspector: true, down, up }));
}

async function oneCall(method, route, down, env) {
  const [args, holds] = CALLS[method];
  const target = route.url ? [route.url, '--transport', down] : route.command;
  const { handle, lines, problems } = await runClient([...INSPECTOR, ...target, '--method', method, ...args], {
    ms: CALL_MS,
    env,
  });
  const detail = () => [...problems, `exit ${handle.code}`, ...handle.kept.slice(-3), lines.join(' ')].join('; ').slice(0, 600);
  try {
    const ok = handle.code === 0 && problems.length === 0 && holds(JSON.parse(lines.join('\n')));
    return [{ check: method, ok, detail: ok ? undefined : detail() }, handle];
  } catch (error) {
    return [{ check: method, ok: false, detail: `${error.message}; ${detail()}` }, handle];
  }
}

export async function runInspectorCell({ down, up }, { bridge }) {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), 'inspector-'));
  const env = { HOME: home };
  const command = (port) =>
    up === 'stdio'
      ? [process.execPath, EVERYTHING, 'stdio']
      : ['env', `PORT=${port}`, process.execPath, '--import', at('lib/loopback.mjs'), EVERYTHING, 'streamableHttp'];
  const results = [];
  const handles = [];
  try {
    const route = await open({ bridge, down, up, command, env });
    for (const method of Object.keys(CALLS)) {
      const [verdict, handle] = await oneCall(method, route, down, env);
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
