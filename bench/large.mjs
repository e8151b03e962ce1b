// What a large message costs: CPU of our process for one call, through the bridge and through the gateway.
//
//   node bench/large.mjs [--switchboard PATH] [--kib 64,1024] [--calls 200] [--rounds 5]
//
// Needs `cargo build --release` and `cargo build --release --manifest-path bench/Cargo.toml`.
// Bridge and gateway take turns, so that both meet the same machine; the medians are shown.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { announced, endAll, start } from '../peers/lib/processes.mjs';

const at = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const { values } = parseArgs({
  options: {
    switchboard: { type: 'string', default: at('target/release/switchboard') },
    echo: { type: 'string', default: at('bench/target/release/bench') },
    kib: { type: 'string', default: '64,1024' },
    calls: { type: 'string', default: '200' },
    rounds: { type: 'string', default: '5' },
  },
});
const READY_MS = 20_000;
const TICK_US = 10_000; // What /proc counts CPU in.
const [calls, rounds] = [Number(values.calls), Number(values.rounds)];
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'large-'));
const urlIn = (line) => /(http:\/\/127\.0\.0\.1:\d+(\/\w+)?)/.exec(line)?.[1];

const serving = (name, words) =>
  announced((said) => start(name, words, { onOut: said, onErr: said }), urlIn, READY_MS);

/** User and system time of a process so far, in microseconds. */
function spent(pid) {
  const fields = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_US;
}

async function post(url, session, message) {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  if (session) headers['mcp-session-id'] = session;
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }) });
  return { session: response.headers.get('mcp-session-id'), body: await response.text() };
}

async function greet(url) {
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'large', version: '1' } };
  const { session } = await post(url, null, { id: 0, method: 'initialize', params });
  await post(url, session, { method: 'notifications/initialized' });
  return session;
}

/** Microseconds of CPU for one call; each answer is checked. */
async function measure(target, text) {
  const before = spent(target.pid);
  for (let id = 1; id <= calls; id += 1) {
    const params = { name: target.tool, arguments: { text } };
    const { body } = await post(target.url, target.session, { id, method: 'tools/call', params });
    if (body.length < text.length || !body.includes(`"id":${id}`)) throw new Error(`${target.name}: ${body.slice(0, 200)}`);
  }
  return (spent(target.pid) - before) / calls;
}

const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

try {
  const [, echo] = await serving('echo', [values.echo, 'echo-http']);
  const file = path.join(folder, 'gateway.json');
  fs.writeFileSync(file, JSON.stringify({ mcpServers: { echo: { url: echo } } }));
  const [bridge, bridgeUrl] = await serving('bridge', [values.switchboard, 'bridge', '--log-level', 'warn', '--port', '0', echo]);
  const [gateway, gatewayUrl] = await serving('gateway', [values.switchboard, 'serve', '--no-cache', '--config', file, '--port', '0']);
  const targets = [
    { name: 'bridge', tool: 'echo', url: bridgeUrl, pid: bridge.child.pid },
    { name: 'gateway', tool: 'echo__echo', url: `${new URL(gatewayUrl).origin}/mcp`, pid: gateway.child.pid },
  ];
  for (const target of targets) target.session = await greet(target.url);
  console.log('| bytes each way | bridge, CPU us | gateway, CPU us | ratio |\n|---|---|---|---|');
  for (const kib of values.kib.split(',').map(Number)) {
    const text = 'x'.repeat(kib * 1024);
    const costs = targets.map(() => []);
    for (let round = 0; round < rounds; round += 1) {
      for (const [index, target] of targets.entries()) costs[index].push(await measure(target, text));
    }
    const [one, many] = costs.map(median);
    console.log(`| ${kib} KiB | ${one.toFixed(0)} | ${many.toFixed(0)} | ${(many / one).toFixed(2)} |`);
  }
} finally {
  endAll();
  fs.rmSync(folder, { recursive: true });
}
