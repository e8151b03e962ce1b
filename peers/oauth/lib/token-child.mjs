#!/usr/bin/env node
// A stdio server that finds its access token in $UPSTREAM_TOKEN, or in the file that $UPSTREAM_TOKEN_FILE names: `whoami`
// tells the subject of the token, as it is at the time of the call, and the number of the process.

import fs from 'node:fs';
import readline from 'node:readline';

const token = () => process.env.UPSTREAM_TOKEN ?? fs.readFileSync(process.env.UPSTREAM_TOKEN_FILE, 'utf8');
const claims = () => JSON.parse(Buffer.from(token().split('.')[1], 'base64url').toString());
const tools = [{ name: 'whoami', description: 'Tells whose token it is.', inputSchema: { type: 'object' } }];

function answer({ method, params }) {
  if (method === 'initialize') {
    return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'token-child', version: '1' } };
  }
  if (method === 'tools/list') return { tools };
  if (method === 'tools/call') {
    const { sub, jti } = claims();
    return { content: [{ type: 'text', text: JSON.stringify({ sub, jti, pid: process.pid }) }] };
  }
  return method === 'ping' ? {} : undefined;
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { id, ...request } = JSON.parse(line);
  if (id === undefined) continue;
  const result = answer(request);
  const error = { code: -32601, message: 'no such method' };
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error }) }));
}
