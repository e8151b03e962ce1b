// What needs no SDK: the status page, answers by their ids, and what is left of processes.

import fs from 'node:fs';
import { pause } from '../lib/processes.mjs';

/** Asks `/status` until all of these can be called. */
export async function ready(origin, names, ms) {
  const end = Date.now() + ms;
  for (;;) {
    const { servers } = await (await fetch(`${origin}/status`)).json();
    const late = names.filter((name) => servers[name]?.state !== 'ready');
    if (!late.length) return;
    if (Date.now() > end) throw new Error(`not ready: ${late.map((name) => `${name} ${JSON.stringify(servers[name])}`)}`);
    await pause(100);
  }
}

async function post(url, message, session) {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  if (session) Object.assign(headers, { 'mcp-session-id': session, 'mcp-protocol-version': '2025-11-25' });
  const signal = AbortSignal.timeout(60_000);
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }), signal });
  const body = await response.text();
  const data = body.split('\n').filter((line) => line.startsWith('data: ')).map((line) => line.slice(6)).filter(Boolean);
  const answers = (data.length ? data : [body]).filter(Boolean).map((text) => JSON.parse(text));
  return { session: response.headers.get('mcp-session-id'), answer: answers.find((it) => 'id' in it && !('method' in it)) };
}

/** Calls good and bad servers at once, and looks at each answer's id. */
export async function ids(origin) {
  const url = `${origin}/mcp`;
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'plain', version: '1' } };
  const { session } = await post(url, { id: 0, method: 'initialize', params });
  await post(url, { method: 'notifications/initialized' }, session);
  const bad = ['crashes__crash', 'crashes__crash', 'floods__line'].map((name, n) => ({ id: `bad-${n}`, name }));
  const good = Array.from({ length: 20 }, (_, n) => ({ id: 1000 + n, name: `${['py', 'rmcp', 'ts2'][n % 3]}__echo`, text: `good ${n}` }));
  const calls = [...bad, ...good].map(async ({ id, name, text }) => {
    const message = { id, method: 'tools/call', params: { name, arguments: { text } } };
    const { answer } = await post(url, message, session).catch((error) => ({ answer: { failed: String(error) } }));
    const right = text ? answer?.result?.content?.[0].text === text : Boolean(answer?.error || answer?.result?.isError);
    const ok = answer?.id === id && right;
    return { check: `${name} ${id}`, ok, detail: ok ? undefined : JSON.stringify(answer)?.slice(0, 300) ?? 'no answer' };
  });
  const results = await Promise.all(calls);
  await fetch(url, { method: 'DELETE', headers: { 'mcp-session-id': session } });
  return { results, gaps: [], kept: [] };
}

const read = (pid, file) => {
  try {
    return fs.readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    return ''; // It has ended, or is not ours.
  }
};
const processes = () => fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number);
const stat = (pid) => /^\d+ \((.*)\) (\S) (\d+)/s.exec(read(pid, 'stat'));

/** The processes that this one has started, and theirs. */
export function descendants(root) {
  const parents = new Map(processes().map((pid) => [pid, Number(stat(pid)?.[3])]));
  const below = new Set([root]);
  for (let grew = true; grew; ) {
    grew = false;
    for (const [pid, parent] of parents) {
      if (below.has(parent) && !below.has(pid)) grew = Boolean(below.add(pid));
    }
  }
  below.delete(root);
  return [...below];
}

/** Those of these, or with this in their environment, that still run. */
export function left(pids, mark) {
  const [[name, value]] = Object.entries(mark);
  const ours = processes().filter((pid) => pids.includes(pid) || read(pid, 'environ').split('\0').includes(`${name}=${value}`));
  return ours.filter((pid) => stat(pid) && stat(pid)[2] !== 'Z').map((pid) => `${pid} ${read(pid, 'cmdline').replaceAll('\0', ' ').slice(0, 120)}`);
}
