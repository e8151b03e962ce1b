#!/usr/bin/env node
// A server of the TypeScript SDK 1 with its own authorization server beside it: the router, the middleware and the
// example provider of the SDK. Prints `ready URL`. Nobody is asked: the example provider consents by itself.

import { once } from 'node:events';
import { createRequire } from 'node:module';
import { DemoInMemoryAuthProvider } from '@modelcontextprotocol/sdk/examples/server/demoInMemoryOAuthProvider.js';
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js';
import { getOAuthProtectedResourceMetadataUrl, mcpAuthRouter } from '@modelcontextprotocol/sdk/server/auth/router.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

// The express that the SDK brings.
const express = createRequire(import.meta.resolve('@modelcontextprotocol/sdk/server/auth/router.js'))('express');
const SCOPES = ['mcp:tools'];

const app = express();
const listener = app.listen(0, '127.0.0.1');
await once(listener, 'listening');
const base = new URL(`http://127.0.0.1:${listener.address().port}`);
const resource = new URL('/mcp', base);
const provider = new DemoInMemoryAuthProvider((asked) => asked?.href === resource.href);
app.use(express.json());
app.use(mcpAuthRouter({ provider, issuerUrl: base, resourceServerUrl: resource, scopesSupported: SCOPES }));

const gate = requireBearerAuth({
  verifier: provider, requiredScopes: SCOPES, resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource),
});
app.post('/mcp', gate, async (req, res) => {
  const server = new McpServer({ name: 'foreign', version: '1.0.0' });
  const answer = (extra) => JSON.stringify({ sub: 'nobody', scopes: extra.authInfo.scopes });
  server.registerTool('whoami', { description: 'Tells what the token is for.' }, (extra) => ({ content: [{ type: 'text', text: answer(extra) }] }));
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  await server.connect(transport);
  await transport.handleRequest(req, res, req.body);
});
app.all('/mcp', gate, (req, res) => res.status(405).end());
process.on('SIGTERM', () => process.exit(0));
console.log(`ready ${resource.href}`);
