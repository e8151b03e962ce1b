// What access tokens cost at the entrance of a gateway, compared with a key (OD-11).
//
//   node bench/tokens.mjs [--calls 200] [--tokens 10000] [--rounds 60] [BINARY]
//
// Measures the CPU time of one request with a key, with a token that is known, and with a new one each time,
// in rounds of each in turn, the kernel's part included. Then it counts the instructions of the same
// requests, in user space only; and how much memory that many tokens of that many users take. The default
// BINARY is target/dist/switchboard. Needs valgrind.

import { createHash, generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import fs from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { announced, end, pause, start } from '../peers/lib/processes.mjs';
import { at, legacyClient, modernCall, post, profile, traced } from './traced.mjs';

const REST_MS = 1_000;
const PUBLIC = 'https://gateway.example';
const KEY = `sb_${'k'.repeat(40)}`;

/** An issuer of JWTs at a port of this process. */
async function issuer() {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid: 'k1', alg: 'ES256', use: 'sig' };
  const server = createServer((request, response) => {
    const metadata = { issuer: url, jwks_uri: `${url}/jwks` };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(request.url === '/jwks' ? { keys: [jwk] } : metadata));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const token = (sub) => {
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: url, sub, aud: `${PUBLIC}/mcp`, iat: now, exp: now + 3600, jti: randomUUID(), scope: 'mcp:read mcp:write' };
    const text = `${part({ alg: 'ES256', kid: 'k1', typ: 'at+jwt' })}.${part(claims)}`;
    const signature = sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' });
    return `${text}.${signature.toString('base64url')}`;
  };
  return { server, url, token };
}

const args = (url) => ['serve', '--port', '0', '--no-cache', '--api-key', KEY, '--oauth-issuer', url, '--public-url', PUBLIC];

/** A function that makes one request with what `show` says. */
async function caller(url, show) {
  const shown = () => ({ authorization: `Bearer ${show()}` });
  const headers = await legacyClient(url, shown());
  let id = 1;
  return async () => {
    id += 1;
    const { messages } = await post(url, { id, method: 'ping' }, { ...headers, ...shown() });
    if (!messages.at(-1)?.result) throw new Error(`not an answer: ${JSON.stringify(messages)}`);
  };
}

async function cost(child, call, calls) {
  for (let warm = 0; warm < 20; warm += 1) await call();
  const calling = async () => {
    for (let done = 0; done < calls; done += 1) await call();
  };
  const [, total] = /^(?:summary|totals): (\d+)/m.exec(await profile(child, calling, REST_MS));
  return Number(total) / calls;
}

/** Microseconds that all threads of a process have been on a CPU. */
function cpuTime(pid) {
  const times = fs.readdirSync(`/proc/${pid}/task`).map((task) => fs.readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8'));
  return times.reduce((sum, text) => sum + Number(text.split(' ')[0]), 0) / 1000;
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];

/**
 * Microseconds of CPU of one request in each way, and how much more than the first that is: medians of rounds.
 * A round is of one way and the first, each in turn before the other: what comes after costly requests costs more.
 */
async function cpuCosts(binary, from, ways, { calls, rounds }) {
  const urlIn = (line) => /(http:\/\/127\.0\.0\.1:\d+\/\w+)/.exec(line)?.[1];
  const [process, url] = await announced((onOut) => start('switchboard', [binary, ...args(from.url)], { onOut }), urlIn, 60_000);
  const timed = async (call) => {
    const before = cpuTime(process.child.pid);
    for (let done = 0; done < calls; done += 1) await call();
    return (cpuTime(process.child.pid) - before) / calls;
  };
  const costs = [];
  const first = await caller(url, Object.values(ways)[0]);
  for (const show of Object.values(ways)) {
    const call = await caller(url, show);
    const [all, more] = [[], []];
    for (let round = -4; round < rounds; round += 1) {
      const pair = round % 2 ? [await timed(first), await timed(call)] : [await timed(call), await timed(first)].toReversed();
      if (round < 0) continue;
      all.push(pair[1]);
      more.push(pair[1] - pair[0]);
    }
    costs.push({ all: median(all), more: median(more) });
  }
  await end(process);
  return costs;
}

/** KiB that a process has in memory. */
const resident = (pid) => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);

async function memory(binary, from, count) {
  const urlIn = (line) => /(http:\/\/127\.0\.0\.1:\d+\/\w+)/.exec(line)?.[1];
  const [process, url] = await announced((onOut) => start('switchboard', [binary, ...args(from.url)], { onOut }), urlIn, 60_000);
  const withKey = await caller(url, () => KEY);
  for (let warm = 0; warm < 1_000; warm += 1) await withKey();
  const before = resident(process.child.pid);
  for (let done = 0; done < count; done += 1) {
    const user = `user-${createHash('sha256').update(String(done)).digest('hex')}`;
    const { _meta, headers } = modernCall('none');
    const message = { id: done, method: 'tools/call', params: { name: 'none', _meta } };
    await post(url, message, { ...headers, authorization: `Bearer ${from.token(user)}` });
  }
  const after = resident(process.child.pid);
  await end(process);
  return after - before;
}

async function main() {
  const { values, positionals } = parseArgs({
    options: { calls: { type: 'string', default: '200' }, tokens: { type: 'string', default: '10000' }, rounds: { type: 'string', default: '60' } },
    allowPositionals: true,
  });
  const binary = positionals.length ? path.resolve(positionals[0]) : at('target/dist/switchboard');
  const from = await issuer();
  const known = from.token('ada');
  const ways = { 'a key': () => KEY, 'a known token': () => known, 'a new token': () => from.token('ada') };
  const calls = Number(values.calls);
  const times = await cpuCosts(binary, from, ways, { calls, rounds: Number(values.rounds) });
  const [child, url] = await traced(binary, args(from.url));
  await pause(REST_MS);
  console.log('| a request with | µs of CPU | more than a key | instructions | more than a key |\n|---|---|---|---|---|');
  let first;
  for (const [at, [name, show]] of Object.entries(ways).entries()) {
    const one = await cost(child, await caller(url, show), calls);
    first ??= one;
    const counts = [one, one - first].map((number) => Math.round(number).toLocaleString('en'));
    console.log(`| ${[name, times[at].all.toFixed(1), times[at].more.toFixed(1), ...counts].join(' | ')} |`);
  }
  await end(child);
  const count = Number(values.tokens);
  const grown = await memory(binary, from, count);
  console.log(`\n${count.toLocaleString('en')} tokens of as many users: ${(grown / 1024).toFixed(1)} MiB`);
  from.server.close();
}

await main();
process.exit(0);
