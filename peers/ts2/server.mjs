// The fixture server on the TypeScript SDK 2.x (both eras).

import { randomUUID } from 'node:crypto';
import { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } from '@modelcontextprotocol/node';
import * as mcp from '@modelcontextprotocol/server';
import { SSEServerTransport } from '@modelcontextprotocol/server-legacy/sse';
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import * as fixture from '../lib/fixture.mjs';
import { listen, serverArgs, sessionRoute, sseRoutes } from '../lib/serve.mjs';

const args = serverArgs(['both', 'legacy', 'modern']);
const live = new Set();
let modernHttp;

const guard = (work) => async (request, ctx) => {
  try {
    return await work(request.params ?? {}, ctx);
  } catch (error) {
    if (error instanceof fixture.BadParams)
      throw new mcp.ProtocolError(mcp.ProtocolErrorCode.InvalidParams, error.message);
    throw error;
  }
};

async function everyone(send) {
  await Promise.allSettled([...live].map(send));
}

/** Legacy asks during the call; modern returns the question and finds the answer in the retry. */
async function ask(peer, question, ctx) {
  if (peer.era === 'legacy') {
    return fixture.saying(JSON.stringify(await ctx.mcpReq.send(question)));
  }
  const answer = ctx.mcpReq.inputResponses?.answer;
  if (answer) return fixture.saying(JSON.stringify(answer));
  // The modern era has no name for a visit.
  const { elicitationId, ...params } = question.params;
  question = { ...question, params };
  return mcp.inputRequired({ inputRequests: { answer: question }, requestState: 'peer state' });
}

function call(peer, params, ctx) {
  const token = ctx.mcpReq._meta?.progressToken;
  return {
    signal: ctx.mcpReq.signal,
    ask: (question) => ask(peer, question, ctx),
    log: (level, data, logger) => ctx.mcpReq.log(level, data, logger),
    progress: (progress, total, message) =>
      token !== undefined &&
      ctx.mcpReq.notify({
        method: 'notifications/progress',
        params: { progressToken: token, progress, total, message },
      }),
    listChanged: async () => {
      modernHttp?.notify.toolsChanged();
      await everyone((other) => other.server.sendToolListChanged());
    },
    updated: async (uri) => {
      modernHttp?.notify.resourceUpdated(uri);
      // On stdio the SDK's listen router filters for a modern peer.
      const watched = (other) => other.era === 'modern' || other.watching.has(uri);
      await everyone((other) => watched(other) && other.server.sendResourceUpdated({ uri }));
    },
  };
}

function factory({ era }) {
  const server = new mcp.Server(fixture.SERVER, { capabilities: fixture.CAPABILITIES });
  const peer = { server, era, watching: new Set() };
  const on = (method, work) => server.setRequestHandler(method, guard(work));
  on('tools/list', (params) => fixture.toolPage(params.cursor));
  on('tools/call', (params, ctx) => fixture.runTool(params.name, params.arguments, call(peer, params, ctx)));
  on('resources/list', () => ({ resources: fixture.RESOURCES }));
  on('resources/read', (params) => fixture.readResource(params.uri));
  on('resources/subscribe', (params) => (peer.watching.add(params.uri), {}));
  on('resources/unsubscribe', (params) => (peer.watching.delete(params.uri), {}));
  on('prompts/list', () => ({ prompts: fixture.PROMPTS }));
  on('prompts/get', (params) => fixture.getPrompt(params.name, params.arguments));
  // A modern HTTP instance lives for one request: its clients are told through the handler's bus.
  if (era === 'legacy' || args.transport === 'stdio') live.add(peer);
  server.onclose = () => live.delete(peer);
  return server;
}

const connectLegacy = (transport) => factory({ era: 'legacy' }).connect(transport);

async function openSession(register, forget) {
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => register(id, transport),
    onsessionclosed: forget,
  });
  await connectLegacy(transport);
  return transport;
}

function httpRoute() {
  const sessions = sessionRoute(openSession);
  if (args.era === 'legacy') return sessions;
  modernHttp = mcp.createMcpHandler(factory, { legacy: 'reject' });
  const modern = toNodeHandler(modernHttp);
  if (args.era === 'modern') return modern;
  return async (req, res) => {
    if (req.method !== 'POST') return sessions(req, res);
    const request = await toWebRequest(req);
    const body = await request.clone().json().catch(() => undefined);
    if (!(await mcp.isLegacyRequest(request))) return modern(req, res, body);
    req.parsed = body;
    return sessions(req, res);
  };
}

function stdio() {
  process.stdin.on('end', () => process.exit(0));
  process.on('SIGTERM', () => process.exit(0));
  if (args.era === 'legacy') return connectLegacy(new StdioServerTransport());
  return serveStdio(factory, { legacy: args.era === 'modern' ? 'reject' : 'serve' });
}

if (args.transport === 'http') listen(args.port, '/mcp', { '/mcp': httpRoute() });
else if (args.transport === 'sse') listen(args.port, '/sse', sseRoutes(SSEServerTransport, connectLegacy));
else await stdio();
