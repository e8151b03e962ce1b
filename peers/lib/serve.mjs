// What the TypeScript servers share below the SDK: arguments, a loopback HTTP
// server that says when it is ready, and the HTTP+SSE routes of 2024-11-05.

import http from 'node:http';
import { parseArgs } from 'node:util';

/** `--transport`, `--era` and `--port`, checked. */
export function serverArgs(eras) {
  const { values } = parseArgs({
    options: {
      transport: { type: 'string', default: 'stdio' },
      era: { type: 'string', default: eras[0] },
      port: { type: 'string', default: '0' },
    },
  });
  const known = ['stdio', 'http', 'sse'].includes(values.transport) && eras.includes(values.era);
  if (!known || (values.transport === 'sse' && values.era === 'modern')) {
    console.error(`this server cannot do --transport ${values.transport} --era ${values.era}`);
    process.exit(2);
  }
  return values;
}

/** Serves `routes` (path to handler) on 127.0.0.1 and prints the ready line for `path`. */
export function listen(port, path, routes) {
  const server = http.createServer((req, res) => {
    const route = routes[new URL(req.url, 'http://localhost').pathname];
    if (!route) return res.writeHead(404).end();
    Promise.resolve(route(req, res)).catch((error) => {
      console.error('request failed:', error);
      if (!res.headersSent) res.writeHead(500);
      res.end();
    });
  });
  server.listen(Number(port), '127.0.0.1', () => {
    console.error(`listening http://127.0.0.1:${server.address().port}${path}`);
  });
  process.on('SIGTERM', () => process.exit(0));
}

/** The two routes of HTTP+SSE over an SDK's `SSEServerTransport`; `build` makes a connected server. */
export function sseRoutes(SSEServerTransport, build) {
  const sessions = new Map();
  return {
    '/sse': async (req, res) => {
      const transport = new SSEServerTransport('/messages', res);
      sessions.set(transport.sessionId, transport);
      res.on('close', () => sessions.delete(transport.sessionId));
      await build(transport);
    },
    '/messages': async (req, res) => {
      const id = new URL(req.url, 'http://localhost').searchParams.get('sessionId');
      const transport = sessions.get(id);
      if (!transport) return res.writeHead(404).end('no such session');
      await transport.handlePostMessage(req, res);
    },
  };
}

/** One transport per `Mcp-Session-Id`; `open(register)` makes one that registers itself when initialized. */
export function sessionRoute(open) {
  const sessions = new Map();
  return async (req, res) => {
    const id = req.headers['mcp-session-id'];
    const known = id && sessions.get(id);
    if (id && !known) {
      res.writeHead(404, { 'content-type': 'application/json' });
      return res.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}');
    }
    const transport = known || (await open((name, made) => sessions.set(name, made), (name) => sessions.delete(name)));
    await transport.handleRequest(req, res, req.parsed);
  };
}
