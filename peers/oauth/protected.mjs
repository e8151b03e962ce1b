#!/usr/bin/env node
// A small MCP server that wants an access token, for tests (README.md says how). Both eras, at /mcp.
// Prints `ready URL`. It takes JWTs, or with --opaque any token that introspection knows, and DPoP proofs.

import http from 'node:http';
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { toNodeHandler } from '@modelcontextprotocol/node';
import * as mcp from '@modelcontextprotocol/server';
import { admin } from './lib/counts.mjs';
import { Gate } from './lib/gate.mjs';

const TOOLS = {
  echo: { description: 'Says the text again.', properties: { text: { type: 'string' } } },
  whoami: { description: 'Tells whose token came, and its hash.', properties: {} },
  write: { description: 'Needs the scope mcp:write.', properties: {} },
};

const { values: options } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    issuer: { type: 'string', multiple: true, default: [] },
    scope: { type: 'string', default: 'mcp:read' },
    'no-scopes-supported': { type: 'boolean', default: false },
    'no-challenge-url': { type: 'boolean', default: false },
    opaque: { type: 'boolean', default: false },
    introspect: { type: 'string', default: 'gate:gate-secret' },
    nonce: { type: 'boolean', default: false },
    'dpop-only': { type: 'boolean', default: false },
  },
});

function factory({ gate }) {
  const server = new mcp.Server({ name: 'protected', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler('tools/list', () => ({
    tools: Object.entries(TOOLS).map(([name, { description, properties }]) => ({
      name, description, inputSchema: { type: 'object', properties },
    })),
  }));
  server.setRequestHandler('tools/call', ({ params }, ctx) => {
    const text = { echo: () => params.arguments?.text ?? '', whoami: () => gate.describe(ctx), write: () => 'written' }[params.name];
    if (!text) throw new mcp.ProtocolError(mcp.ProtocolErrorCode.InvalidParams, `no tool ${params.name}`);
    gate.count(params.name);
    return { content: [{ type: 'text', text: text() }] };
  });
  return server;
}

async function bodyOf(req) {
  const parts = [];
  for await (const part of req) parts.push(part);
  try {
    return JSON.parse(Buffer.concat(parts).toString());
  } catch {
    return undefined;
  }
}

const server = http.createServer();
server.listen(Number(options.port), '127.0.0.1');
await once(server, 'listening');
const base = `http://127.0.0.1:${server.address().port}`;
const gate = new Gate(`${base}/mcp`, options);
const serve = toNodeHandler(mcp.createMcpHandler(() => factory({ gate }), { legacy: 'stateless' }));
const adminAnswer = admin({ '/admin/counts': () => gate.counts, '/admin/refuse': (hash) => gate.refuse(hash.trim()) });

async function answer(req, res) {
  const { pathname } = new URL(req.url, base);
  if (pathname === gate.metadataPath) {
    res.writeHead(200, { 'content-type': 'application/json' });
    return res.end(JSON.stringify(gate.metadata()));
  }
  if (pathname !== '/mcp') return res.writeHead(404).end();
  const body = req.method === 'POST' ? await bodyOf(req) : undefined;
  const caller = await gate.admit(req, res, body);
  if (!caller) return undefined;
  req.auth = caller;
  return serve(req, res, body);
}

server.on('request', (req, res) => {
  if (adminAnswer(req, res)) return;
  answer(req, res).catch((error) => {
    console.error('request failed:', error);
    if (!res.headersSent) res.writeHead(500);
    res.end();
  });
});
process.on('SIGTERM', () => process.exit(0));
console.log(`ready ${base}/mcp`);
