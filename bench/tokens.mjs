// What access tokens cost at the entrance of a gateway, compared with a key (OD-11).
//
//   node bench/tokens.mjs [--calls 200] [--tokens 10000] [BINARY]
//
// Counts the instructions of one request with a key, with a token that is known, and with a new one each
// time; then how much memory that many tokens of that many users take. The default BINARY is
// target/release/switchboard. Needs valgrind. User space only.

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
    options: { calls: { type: 'string', default: '200' }, tokens: { type: 'string', default: '10000' } },
    allowPositionals: true,
  });
  const binary = positionals.length ? path.resolve(positionals[0]) : at('target/release/switchboard');
  const from = await issuer();
  const [child, url] = await traced(binary, args(from.url));
  await pause(REST_MS);
  const known = from.token('ada');
  const ways = { 'a key': () => KEY, 'a known token': () => known, 'a new token': () => from.token('ada') };
  const calls = Number(values.calls);
  console.log('| a request with | instructions | more than a key |\n|---|---|---|');
  let first;
  for (const [name, show] of Object.entries(ways)) {
    const one = await cost(child, await caller(url, show), calls);
    first ??= one;
    console.log(`| ${name} | ${Math.round(one).toLocaleString('en')} | ${Math.round(one - first).toLocaleString('en')} |`);
  }
  await end(child);
  const count = Number(values.tokens);
  const grown = await memory(binary, from, count);
  console.log(`\n${count.toLocaleString('en')} tokens of as many users: ${(grown / 1024).toFixed(1)} MiB`);
  from.server.close();
}

await main();
process.exit(0);
