// Counts the instructions that one call costs in our process, where time would be noise.
//
//   node bench/instructions.mjs [--calls 100] [--only TEXT] [BINARY ...]
//
// Each BINARY is a `switchboard` to compare with the first (default: target/release/switchboard).
// Needs valgrind, and `cargo build --workspace` for the server behind it. User space only: what the
// system does for us is not counted.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { announced, end, endAll, pause, start } from '../peers/lib/processes.mjs';

const at = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const READY_MS = 60_000; // Under valgrind everything takes fifty times as long.
const REST_MS = 1_000;
const LEGACY = '2025-11-25';
const MODERN = '2026-07-28';
const PEER = [at('target/debug/switchboard-peer'), 'server', '--transport'];
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'instructions-'));

const urlIn = (line) => /(http:\/\/127\.0\.0\.1:\d+\/\w+)/.exec(line)?.[1];

const traced = (binary, args) =>
  announced(
    (onOut) => start('switchboard', ['valgrind', '--tool=callgrind', `--callgrind-out-file=${folder}/%p`, binary, ...args], { onOut }),
    urlIn,
    READY_MS,
  );

const httpServer = (era) =>
  announced((onErr) => start('server', [...PEER, 'http', '--era', era, '--port', '0'], { onErr }), urlIn, READY_MS);

async function post(url, message, headers = {}) {
  const all = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers };
  const response = await fetch(url, { method: 'POST', headers: all, body: JSON.stringify({ jsonrpc: '2.0', ...message }) });
  return { session: response.headers.get('mcp-session-id'), body: await response.text() };
}

/** A function that makes one call and checks its answer. */
async function caller(url, era, tool) {
  const params = { name: tool, arguments: { text: 'x'.repeat(100) } };
  let headers = { 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call', 'mcp-name': tool };
  if (era === 'legacy') {
    const hello = { protocolVersion: LEGACY, capabilities: {}, clientInfo: { name: 'count', version: '1' } };
    const { session } = await post(url, { id: 0, method: 'initialize', params: hello });
    headers = { 'mcp-session-id': session, 'mcp-protocol-version': LEGACY };
    await post(url, { method: 'notifications/initialized' }, headers);
  } else {
    params._meta = {
      'io.modelcontextprotocol/protocolVersion': MODERN,
      'io.modelcontextprotocol/clientInfo': { name: 'count', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    };
  }
  let id = 1;
  return async () => {
    id += 1;
    const { body } = await post(url, { id, method: 'tools/call', params }, headers);
    if (!body.includes(`"id":${id}`) || !body.includes('xxx')) throw new Error(`not an answer: ${body.slice(0, 300)}`);
  };
}

async function bridgeToStdio(binary, era) {
  const [child, url] = await traced(binary, ['bridge', '--port', '0', '--', ...PEER, 'stdio', '--era', era]);
  return { child, call: await caller(url, era, 'echo') };
}

async function bridgeToHttp(binary, era) {
  const [, server] = await httpServer(era);
  const [child, url] = await traced(binary, ['bridge', '--port', '0', server]);
  return { child, call: await caller(url, era, 'echo') };
}

async function gateway(binary, era) {
  const [, server] = await httpServer(era);
  const config = path.join(folder, `gateway-${Date.now()}.json`);
  fs.writeFileSync(config, JSON.stringify({ mcpServers: { it: { type: 'http', url: server } } }));
  const [child, front] = await traced(binary, ['serve', '--no-cache', '--config', config, '--port', '0']);
  for (;;) {
    const { servers } = await (await fetch(new URL('/status', front))).json();
    if (servers.it.state === 'ready') break;
    await pause(200);
  }
  return { child, call: await caller(new URL('/mcp', front).href, era, 'it__echo') };
}

/** Instructions for one call, once everything is warm. */
async function cost({ child, call }, calls) {
  for (let warm = 0; warm < 20; warm += 1) await call();
  const { pid } = child.child;
  const control = (option) => execFileSync('callgrind_control', [option, String(pid)], { stdio: 'pipe' });
  await pause(REST_MS);
  control('--zero');
  for (let done = 0; done < calls; done += 1) await call();
  control('--dump');
  const dumps = fs.readdirSync(folder).filter((name) => name.startsWith(`${pid}.`));
  const [, total] = /^(?:summary|totals): (\d+)/m.exec(fs.readFileSync(path.join(folder, dumps.at(-1)), 'utf8'));
  await end(child);
  return Number(total) / calls;
}

const WAYS = { 'bridge, HTTP to stdio': bridgeToStdio, 'bridge, HTTP to HTTP': bridgeToHttp, 'gateway, HTTP to HTTP': gateway };

async function main() {
  const { values, positionals } = parseArgs({
    options: { calls: { type: 'string', default: '100' }, only: { type: 'string', default: '' } },
    allowPositionals: true,
  });
  const binaries = positionals.length ? positionals.map((name) => path.resolve(name)) : [at('target/release/switchboard')];
  console.log(`| instructions for one call | ${binaries.map((_, index) => (index ? `${index + 1} | ratio` : '1')).join(' | ')} |`);
  console.log(`|---|${binaries.map((_, index) => (index ? '---|---' : '---')).join('|')}|`);
  for (const [name, way] of Object.entries(WAYS))
    for (const era of ['legacy', 'modern']) {
      const what = `${name}, ${era}`;
      if (!what.includes(values.only)) continue;
      const costs = [];
      for (const binary of binaries) costs.push(await cost(await way(binary, era), Number(values.calls)));
      const cells = costs.map((one, index) => {
        const count = Math.round(one).toLocaleString('en');
        return index ? `${count} | ${(one / costs[0]).toFixed(2)}` : count;
      });
      console.log(`| ${what} | ${cells.join(' | ')} |`);
    }
}

process.on('exit', () => {
  endAll();
  fs.rmSync(folder, { recursive: true, force: true });
});
await main();
process.exit(0);
