// The fixture server on the TypeScript SDK 1.x (legacy era only).

import { randomUUID } from 'node:crypto';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import * as mcp from '@modelcontextprotocol/sdk/types.js';
import * as fixture from '../lib/fixture.mjs';
import { listen, serverArgs, sessionRoute, sseRoutes } from '../lib/serve.mjs';

const args = serverArgs(['legacy', 'both']);
const live = new Set();

const answers = {
  'elicitation/create': mcp.ElicitResultSchema,
  'sampling/createMessage': mcp.CreateMessageResultWithToolsSchema,
  'roots/list': mcp.ListRootsResultSchema,
};

/** Turns the fixture's own error into the JSON-RPC one. */
const guard = (work) => async (request, extra) => {
  try {
    return await work(request.params ?? {}, extra);
  } catch (error) {
    if (error instanceof fixture.BadParams) throw new mcp.McpError(mcp.ErrorCode.InvalidParams, error.message);
    throw error;
  }
};

async function everyone(send) {
  await Promise.allSettled([...live].map(send));
}

function call(peer, params, extra) {
  const token = params._meta?.progressToken;
  return {
    signal: extra.signal,
    ask: async (question) =>
      fixture.saying(JSON.stringify(await extra.sendRequest(question, answers[question.method]))),
    log: (level, data, logger) =>
      fixture.atLeast(level, peer.level) &&
      extra.sendNotification({ method: 'notifications/message', params: { level, data, logger } }),
    progress: (progress, total, message) =>
      token !== undefined &&
      extra.sendNotification({
        method: 'notifications/progress',
        params: { progressToken: token, progress, total, message },
      }),
    listChanged: () => everyone((other) => other.server.sendToolListChanged()),
    updated: (uri) =>
      everyone((other) => other.watching.has(uri) && other.server.sendResourceUpdated({ uri })),
  };
}

async function build(transport) {
  const server = new Server(fixture.SERVER, { capabilities: fixture.CAPABILITIES });
  const peer = { server, watching: new Set(), level: 'debug' };
  const on = (schema, work) => server.setRequestHandler(schema, guard(work));
  on(mcp.ListToolsRequestSchema, (params) => fixture.toolPage(params.cursor));
  on(mcp.CallToolRequestSchema, (params, extra) =>
    fixture.runTool(params.name, params.arguments, call(peer, params, extra)));
  on(mcp.ListResourcesRequestSchema, () => ({ resources: fixture.RESOURCES }));
  on(mcp.ReadResourceRequestSchema, (params) => fixture.readResource(params.uri));
  on(mcp.SubscribeRequestSchema, (params) => (peer.watching.add(params.uri), {}));
  on(mcp.UnsubscribeRequestSchema, (params) => (peer.watching.delete(params.uri), {}));
  on(mcp.ListPromptsRequestSchema, () => ({ prompts: fixture.PROMPTS }));
  on(mcp.GetPromptRequestSchema, (params) => fixture.getPrompt(params.name, params.arguments));
  on(mcp.SetLevelRequestSchema, (params) => ((peer.level = params.level), {}));
  live.add(peer);
  server.onclose = () => live.delete(peer);
  await server.connect(transport);
}

/** Keeps events so that streams get ids, a priming event and resumption. */
class EventLog {
  #events = [];
  async storeEvent(stream, message) {
    this.#events.push({ stream, message });
    return `${this.#events.length}`;
  }
  async getStreamIdForEventId(id) {
    return this.#events[Number(id) - 1]?.stream;
  }
  async replayEventsAfter(id, { send }) {
    const { stream } = this.#events[Number(id) - 1];
    for (let n = Number(id); n < this.#events.length; n += 1) {
      const event = this.#events[n];
      if (event.stream === stream && Object.keys(event.message).length) await send(`${n + 1}`, event.message);
    }
    return stream;
  }
}

async function openSession(register, forget) {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: new EventLog(),
    onsessioninitialized: (id) => register(id, transport),
    onsessionclosed: forget,
  });
  await build(transport);
  return transport;
}

if (args.transport === 'http') {
  listen(args.port, '/mcp', { '/mcp': sessionRoute(openSession) });
} else if (args.transport === 'sse') {
  listen(args.port, '/sse', sseRoutes(SSEServerTransport, build));
} else {
  process.stdin.on('end', () => process.exit(0));
  process.on('SIGTERM', () => process.exit(0));
  await build(new StdioServerTransport());
}
