// Counts the instructions that one call costs in our process, where time would be noise.
//
//   node bench/instructions.mjs [--calls 100] [--only TEXT] [--bare bench/target/dist/bench] [BINARY ...]
//
// With --bare, the way to HTTP is compared with the bare proxy of the benchmark, too. Each BINARY is a `switchboard` to compare with the first (default: target/dist/switchboard).
// Needs valgrind, and `cargo build --workspace` for the server behind it. User space only: what the
// system does for us is not counted.

import path from 'node:path';
import { parseArgs } from 'node:util';
import { end } from '../peers/lib/processes.mjs';
import { PEER, at, gateway, httpServer, legacyClient, modernCall, post, profile, traced } from './traced.mjs';

const REST_MS = 1_000;

/** A function that makes one call and checks its answer. */
async function caller(url, era, tool) {
  const params = { name: tool, arguments: { text: 'x'.repeat(100) } };
  let headers;
  if (era === 'legacy') headers = await legacyClient(url);
  else ({ _meta: params._meta, headers } = modernCall(tool));
  let id = 1;
  return async () => {
    id += 1;
    const answer = (await post(url, { id, method: 'tools/call', params }, headers)).messages.at(-1);
    if (answer.id !== id || !JSON.stringify(answer.result ?? '').includes('xxx')) throw new Error(`not an answer: ${JSON.stringify(answer)}`);
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

async function throughGateway(binary, era) {
  const { process: child, front } = await gateway(binary, era);
  return { child, call: await caller(front, era, 'it__echo') };
}

/** The least that a proxy can do. */
async function bareProxy(bench, era) {
  const [, server] = await httpServer(era);
  const [child, url] = await traced(bench, ['bare-proxy', server], 'onErr');
  return { child, call: await caller(url, era, 'echo') };
}

/** Instructions for one call, once everything is warm. */
async function cost({ child, call }, calls) {
  for (let warm = 0; warm < 20; warm += 1) await call();
  const calling = async () => {
    for (let done = 0; done < calls; done += 1) await call();
  };
  const [, total] = /^(?:summary|totals): (\d+)/m.exec(await profile(child, calling, REST_MS));
  await end(child);
  return Number(total) / calls;
}

const WAYS = { 'bridge, HTTP to stdio': bridgeToStdio, 'bridge, HTTP to HTTP': bridgeToHttp, 'gateway, HTTP to HTTP': throughGateway };

async function main() {
  const { values, positionals } = parseArgs({
    options: { calls: { type: 'string', default: '100' }, only: { type: 'string', default: '' }, bare: { type: 'string' } },
    allowPositionals: true,
  });
  const binaries = positionals.length ? positionals.map((name) => path.resolve(name)) : [at('target/dist/switchboard')];
  console.log(`| instructions for one call | ${binaries.map((_, index) => (index ? `${index + 1} | ratio` : '1')).join(' | ')} |`);
  console.log(`|---|${binaries.map((_, index) => (index ? '---|---' : '---')).join('|')}|`);
  const bare = {};
  for (const era of values.bare ? ['legacy', 'modern'] : []) {
    bare[era] = await cost(await bareProxy(path.resolve(values.bare), era), Number(values.calls));
    console.log(`| bare proxy, ${era} | ${Math.round(bare[era]).toLocaleString('en')} |`);
  }
  for (const [name, way] of Object.entries(WAYS))
    for (const era of ['legacy', 'modern']) {
      const what = `${name}, ${era}`;
      if (!what.includes(values.only)) continue;
      const costs = [];
      for (const binary of binaries) costs.push(await cost(await way(binary, era), Number(values.calls)));
      const cells = costs.map((one, index) => {
        const count = Math.round(one).toLocaleString('en');
        if (index) return `${count} | ${(one / costs[0]).toFixed(2)}`;
        return bare[era] && name.endsWith('HTTP to HTTP') ? `${count} (${(one / bare[era]).toFixed(2)} x bare)` : count;
      });
      console.log(`| ${what} | ${cells.join(' | ')} |`);
    }
}

await main();
process.exit(0);
