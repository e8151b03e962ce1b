// Our binary in callgrind, and small MCP clients that call it.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { announced, endAll, pause, start } from '../peers/lib/processes.mjs';

export const at = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const READY_MS = 60_000; // Under valgrind everything takes fifty times as long.
const LEGACY = '2025-11-25';
const MODERN = '2026-07-28';
export const PEER = [at('target/debug/switchboard-peer'), 'server', '--transport'];
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'traced-'));
process.on('exit', () => {
  endAll();
  fs.rmSync(folder, { recursive: true, force: true });
});

const urlIn = (line) => /(http:\/\/127\.0\.0\.1:\d+\/\w+)/.exec(line)?.[1];

/** A program that callgrind watches from its first instruction on, and its URL, which it tells on that stream. */
export const traced = (binary, args, stream = 'onOut') =>
  announced(
    (on) => start('switchboard', [
      'valgrind', '--tool=callgrind', '--compress-strings=no', '--compress-pos=no', `--callgrind-out-file=${folder}/%p`, binary, ...args,
    ], { [stream]: on }),
    urlIn,
    READY_MS,
  );

/** A server over HTTP, and its URL. */
export const httpServer = (era) =>
  announced((onErr) => start('server', [...PEER, 'http', '--era', era, '--port', '0'], { onErr }), urlIn, READY_MS);

/** A traced gateway with one such server, once that is ready. */
export async function gateway(binary, era) {
  const [, url] = await httpServer(era);
  const config = path.join(folder, `gateway-${Date.now()}.json`);
  fs.writeFileSync(config, JSON.stringify({ mcpServers: { it: { type: 'http', url } } }));
  const [process, front] = await traced(binary, ['serve', '--no-cache', '--config', config, '--port', '0']);
  for (;;) {
    const { servers } = await (await fetch(new URL('/status', front))).json();
    if (servers.it.state === 'ready') return { process, url, front: new URL('/mcp', front).href };
    await pause(200);
  }
}

/** The profile of what happens in `work`. */
export async function profile({ child: { pid } }, work, restMs) {
  const control = (option) => execFileSync('callgrind_control', [option, String(pid)], { stdio: 'pipe' });
  await pause(restMs);
  control('--zero');
  await work();
  await pause(restMs);
  control('--dump');
  const dumps = fs.readdirSync(folder).filter((name) => name.startsWith(`${pid}.`));
  return fs.readFileSync(path.join(folder, dumps.at(-1)), 'utf8');
}

/** Posts a message and gives what the answer has, with all of its events. */
export async function post(url, message, more = {}) {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...more };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }) });
  const body = await response.text();
  const data = body.split('\n').filter((line) => line.startsWith('data: {')).map((line) => line.slice(6));
  const messages = (data.length ? data : [body]).filter(Boolean).map((text) => JSON.parse(text));
  return { session: response.headers.get('mcp-session-id'), messages };
}

/** A legacy client, as the headers of its session. */
export async function legacyClient(url, more = {}) {
  const params = { protocolVersion: LEGACY, capabilities: {}, clientInfo: { name: 'traced', version: '1' } };
  const { session } = await post(url, { id: 0, method: 'initialize', params }, more);
  const headers = { 'mcp-session-id': session, 'mcp-protocol-version': LEGACY };
  await post(url, { method: 'notifications/initialized' }, { ...headers, ...more });
  return headers;
}

/** What a modern client says with each call of a tool: `_meta`, and the headers that repeat it. */
export const modernCall = (name, clientCapabilities = {}) => ({
  _meta: {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientInfo': { name: 'traced', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': clientCapabilities,
  },
  headers: { 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call', 'mcp-name': name },
});
