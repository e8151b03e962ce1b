// The checking client on the TypeScript SDK 1.x (legacy era only).

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as mcp from '@modelcontextprotocol/sdk/types.js';
import * as checks from '../lib/checks.mjs';
import { GATEWAY_CHECKS } from '../lib/gateway-checks.mjs';

const args = checks.clientArgs();
const notes = {
  'notifications/message': mcp.LoggingMessageNotificationSchema,
  'notifications/resources/updated': mcp.ResourceUpdatedNotificationSchema,
  'notifications/tools/list_changed': mcp.ToolListChangedNotificationSchema,
};

function transport() {
  if (args.transport === 'http') return new StreamableHTTPClientTransport(new URL(args.url));
  if (args.transport === 'sse') return new SSEClientTransport(new URL(args.url));
  const [command, ...rest] = args.command;
  return new StdioClientTransport({ command, args: rest, stderr: 'inherit' });
}

const client = new Client({ name: 'peer-ts1', version: '1.0.0' }, { capabilities: checks.CLIENT_CAPABILITIES });
client.onerror = (error) => console.error('client error:', error.message);
client.setRequestHandler(mcp.ElicitRequestSchema, ({ params }) => checks.elicited(params));
client.setRequestHandler(mcp.CreateMessageRequestSchema, ({ params }) => checks.sampled(params));
client.setRequestHandler(mcp.ListRootsRequestSchema, () => checks.ROOTS);

const link = transport();
await checks.runChecks(
  {
    async connect() {
      if (args.era !== 'legacy') throw new Error('this SDK has no modern era');
      await client.connect(link);
    },
    async close() {
      if (args.transport === 'http') await link.terminateSession();
      await client.close();
    },
    call: (name, values, options) =>
      client.callTool({ name, arguments: values }, undefined, options),
    page: (cursor) => client.listTools(cursor === undefined ? {} : { cursor }),
    resources: () => client.listResources(),
    prompts: () => client.listPrompts(),
    templates: () => client.listResourceTemplates(),
    complete: (params) => client.complete(params),
    async task(name, values) {
      const seen = [];
      const stream = client.experimental.tasks.callToolStream({ name, arguments: values }, undefined, { task: {} });
      for await (const message of stream) seen.push(message);
      return seen;
    },
    read: (uri) => client.readResource({ uri }),
    prompt: (name, values) => client.getPrompt({ name, arguments: values }),
    on: (method, seen) => client.setNotificationHandler(notes[method], seen),
    async wantLogs(level) {
      await client.setLoggingLevel(level);
    },
    async subscribe(uri) {
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
    watchTools: async () => async () => {},
  },
  args,
  GATEWAY_CHECKS,
);
