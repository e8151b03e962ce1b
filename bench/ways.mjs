// Counts the functions and files of ours that one message passes (ARCHITECTURE.md says how).
//
//   node bench/ways.mjs [--list] [--only a|b|c]
//
// Needs valgrind, and `cargo build --workspace`.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { announced, end, endAll, pause, start } from '../peers/lib/processes.mjs';
import { countOurs } from './callgrind.mjs';

const at = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const READY_MS = 60_000; // Under valgrind everything takes fifty times as long.
const REST_MS = 1_500;
const LEGACY = '2025-11-25';
const MODERN = '2026-07-28';
const PEER = [at('target/debug/switchboard-peer'), 'server', '--era', 'legacy', '--transport'];
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'ways-'));

const urlIn = (line) => /(http:\/\/127\.0\.0\.1:\d+\/\w+)/.exec(line)?.[1];

/** Our binary in callgrind, which counts from the first instruction on. */
const traced = (args) =>
  announced(
    (onOut) => start('switchboard', [
      'valgrind', '--tool=callgrind', '--compress-strings=no', '--compress-pos=no', `--callgrind-out-file=${folder}/%p`,
      at('target/debug/switchboard'), ...args,
    ], { onOut }),
    urlIn,
    READY_MS,
  );

const server = () => announced((onErr) => start('server', [...PEER, 'http', '--port', '0'], { onErr }), urlIn, READY_MS);

/** What happens in `work`, as counts. */
async function counted({ child: { pid } }, work) {
  const control = (option) => execFileSync('callgrind_control', [option, String(pid)], { stdio: 'pipe' });
  await pause(REST_MS);
  control('--zero');
  await work();
  await pause(REST_MS);
  control('--dump');
  const dumps = fs.readdirSync(folder).filter((name) => name.startsWith(`${pid}.`));
  return countOurs(fs.readFileSync(path.join(folder, dumps.at(-1)), 'utf8'));
}

/** Posts a message and gives what the answer has, with all of its events. */
async function post(url, message, more = {}) {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...more };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }) });
  const body = await response.text();
  const data = body.split('\n').filter((line) => line.startsWith('data: {')).map((line) => line.slice(6));
  const messages = (data.length ? data : [body]).filter(Boolean).map((text) => JSON.parse(text));
  return { session: response.headers.get('mcp-session-id'), messages };
}

/** A legacy client, as the headers of its session. */
async function legacyClient(url) {
  const params = { protocolVersion: LEGACY, capabilities: {}, clientInfo: { name: 'ways', version: '1' } };
  const { session } = await post(url, { id: 0, method: 'initialize', params });
  const headers = { 'mcp-session-id': session, 'mcp-protocol-version': LEGACY };
  await post(url, { method: 'notifications/initialized' }, headers);
  return headers;
}

function must(holds, seen) {
  if (!holds) throw new Error(`not what was expected: ${JSON.stringify(seen).slice(0, 1000)}`);
}

async function callWithProgress(url, headers) {
  const params = { name: 'progress', arguments: { steps: 1 }, _meta: { progressToken: 'p' } };
  const { messages } = await post(url, { id: 1, method: 'tools/call', params }, headers);
  must(messages.some(({ method }) => method === 'notifications/progress') && messages.at(-1).result, messages);
}

async function callWithQuestion(url) {
  const call = async (more) => {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': MODERN,
      'io.modelcontextprotocol/clientInfo': { name: 'ways', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } },
    };
    const params = { name: 'it__ask', arguments: { kind: 'form' }, _meta, ...more };
    const headers = { 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call', 'mcp-name': params.name };
    return (await post(url, { id: 1, method: 'tools/call', params }, headers)).messages.at(-1);
  };
  const asked = await call({});
  must(asked.result?.resultType === 'input_required', asked);
  const { inputRequests, requestState } = asked.result;
  const answer = { action: 'accept', content: { name: 'Ada' } };
  const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, answer]));
  const done = await call({ inputResponses, requestState });
  must(JSON.stringify(done.result?.content ?? '').includes('Ada'), done);
}

/** A gateway with one legacy server over HTTP. */
async function gateway() {
  const [, url] = await server();
  const config = path.join(folder, 'gateway.json');
  fs.writeFileSync(config, JSON.stringify({ mcpServers: { it: { type: 'http', url } } }));
  const [process, front] = await traced(['serve', '--no-cache', '--config', config, '--port', '0']);
  for (;;) {
    const { servers } = await (await fetch(new URL('/status', front))).json();
    if (servers.it.state === 'ready') return { process, url, front: new URL('/mcp', front).href };
    await pause(200);
  }
}

const WAYS = {
  a: {
    what: 'a legacy HTTP client, the bridge, a stdio server: a call with progress',
    async run() {
      const [process, url] = await traced(['bridge', '--port', '0', '--', ...PEER, 'stdio']);
      const headers = await legacyClient(url);
      await callWithProgress(url, headers);
      return counted(process, () => callWithProgress(url, headers));
    },
  },
  b: {
    what: 'a modern HTTP client, the gateway, a legacy HTTP server: a call with an elicitation',
    async run() {
      const { process, front } = await gateway();
      await callWithQuestion(front);
      return counted(process, () => callWithQuestion(front));
    },
  },
  c: {
    what: 'tools/list_changed of a legacy HTTP server, the gateway, a legacy HTTP client',
    async run() {
      const { process, front, url } = await gateway();
      const headers = await legacyClient(front);
      const response = await fetch(front, { headers: { ...headers, accept: 'text/event-stream' } });
      const stream = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const heard = async () => {
        for (let text = ''; !text.includes('notifications/tools/list_changed'); ) text += (await stream.read()).value;
      };
      const direct = await legacyClient(url);
      const grow = () => post(url, { id: 2, method: 'tools/call', params: { name: 'grow', arguments: {} } }, direct);
      await Promise.all([heard(), grow()]);
      return counted(process, () => Promise.all([heard(), grow()]));
    },
  },
};

async function main() {
  const { values } = parseArgs({ options: { list: { type: 'boolean' }, only: { type: 'string', default: 'abc' } } });
  console.log('| way | files | functions | of them steps |\n|---|---|---|---|');
  for (const [name, { what, run }] of Object.entries(WAYS).filter(([name]) => values.only.includes(name))) {
    const { files, functions, steps } = await run();
    console.log(`| (${name}) ${what} | ${files.length} | ${functions.length} | ${steps.length} |`);
    if (values.list) for (const one of functions) console.log(`    ${steps.includes(one) ? 'step' : '    '} ${one}`);
  }
}

process.on('exit', () => {
  endAll();
  fs.rmSync(folder, { recursive: true, force: true });
});
await main();
process.exit(0);
