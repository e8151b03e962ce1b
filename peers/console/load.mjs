#!/usr/bin/env node
// What the console costs calls: CPU time of the gateway for each call, without tabs and with ten that have all feeds.
// `SWITCHBOARD=target/release/switchboard node peers/console/load.mjs [CALLS] [ROUNDS]`. Prints; judges nothing.

import fs from 'node:fs';
import http from 'node:http';
import { start } from './bed.mjs';

const [calls = 4000, rounds = 5] = process.argv.slice(2).map(Number);
const TABS = 10;
const AT_ONCE = 8;
const bed = await start();
const pid = fs.readdirSync('/proc').find((id) => /^\d+$/.test(id) && ((line) => line.includes('serve') && line.includes(bed.file))(read(`/proc/${id}/cmdline`)));
const agent = new http.Agent({ keepAlive: true, maxSockets: AT_ONCE });

function read(file) {
  try {
    return fs.readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}

/** Seconds of CPU, and bytes of memory, of the gateway. */
function used() {
  const fields = read(`/proc/${pid}/stat`).split(') ')[1].split(' ');
  const memory = Number(/VmRSS:\s+(\d+)/.exec(read(`/proc/${pid}/status`))[1]) * 1024;
  return { cpu: (Number(fields[11]) + Number(fields[12])) / 100, memory };
}

const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 'load', version: '1' }, 'io.modelcontextprotocol/clientCapabilities': {} };
const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'demo__echo', arguments: { message: 'x' }, _meta: meta } });
const headers = { authorization: `Bearer ${bed.key}`, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'demo__echo' };
const call = () => new Promise((resolve, reject) => http.request(`${bed.origin}/mcp`, { method: 'POST', headers, agent }, (answer) => {
  if (answer.statusCode !== 200) reject(new Error(`HTTP ${answer.statusCode}`));
  answer.resume().on('end', resolve);
}).on('error', reject).end(body));

/** Microseconds of CPU for a call. */
async function measure() {
  const before = used();
  let left = calls;
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while ((left -= 1) >= 0) await call();
  }));
  return ((used().cpu - before.cpu) * 1e6) / calls;
}

async function cookie() {
  const answer = await fetch(`${bed.origin}/console/api/sign-in`, { method: 'POST', headers: { 'X-Switchboard': 'console', 'Content-Type': 'application/json', 'Sec-Fetch-Site': 'same-origin' }, body: JSON.stringify({ key: bed.key }) });
  return answer.headers.get('set-cookie').split(';')[0];
}

const signedIn = await cookie();
let open = [];
function look() {
  open = Array.from({ length: TABS }, () => http.get(`${bed.origin}/console/feed?views=servers,calls,sessions,charts,config`, { headers: { cookie: signedIn } }, (answer) => answer.resume()).on('error', () => {}));
}

const median = (all) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)];
const [alone, looked] = [[], []];
await measure();
const before = used().memory;
for (let round = 0; round < rounds; round += 1) {
  alone.push(await measure());
  look();
  looked.push(await measure());
  open.forEach((request) => request.destroy());
}
look();
await measure();
const idle = used();
open.forEach((request) => request.destroy());
const still = used().cpu;
await new Promise((resolve) => setTimeout(resolve, 3000));
console.log(`${calls} calls a round, ${rounds} rounds: ${median(alone).toFixed(1)} µs of CPU a call without tabs, ${median(looked).toFixed(1)} with ${TABS} feeds: ${(median(looked) / median(alone)).toFixed(3)} x`);
console.log(`memory with feeds: ${((idle.memory - before) / 1024).toFixed(0)} KiB more; CPU in 3 s without anybody: ${((used().cpu - still) * 1000).toFixed(0)} ms`);
agent.destroy();
await bed.stop();
process.exit(0);
