#!/usr/bin/env node
// A server whose tools are what a file says: it tells its client when the file changes.
// It speaks 2025-11-25 on stdin and stdout. `node changing.mjs FILE`, with JSON like [{"name": "read", "description": "Reads"}];
// `node changing.mjs 100000` has so many tools, in pages.

import fs from 'node:fs';
import readline from 'node:readline';

const [file] = process.argv.slice(2);
const many = Number(file);
const PAGE = 5000;
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const ANSWERS = {
  initialize: () => ({ protocolVersion: '2025-11-25', capabilities: { tools: { listChanged: true } }, serverInfo: { name: 'changing', version: '1' } }),
  ping: () => ({}),
  'tools/list': (params) => (many ? page(Number(params?.cursor ?? 0)) : { tools: JSON.parse(fs.readFileSync(file, 'utf8')).map((tool) => ({ inputSchema: { type: 'object' }, ...tool })) }),
  'tools/call': ({ name }) => ({ content: [{ type: 'text', text: `called ${name}` }] }),
};

const page = (from) => ({ tools: Array.from({ length: Math.min(PAGE, many - from) }, (_, at) => ({ name: `tool_${from + at}`, description: `Does the thing number ${from + at}`, inputSchema: { type: 'object' } })), ...(from + PAGE < many && { nextCursor: String(from + PAGE) }) });

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id !== undefined) say(ANSWERS[method] ? { id, result: ANSWERS[method](params) } : { id, error: { code: -32601, message: 'no such method' } });
}).on('close', () => process.exit(0));
if (!many) fs.watchFile(file, { interval: 100 }, () => say({ method: 'notifications/tools/list_changed' }));
