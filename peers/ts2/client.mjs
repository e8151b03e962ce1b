// The checking client on the TypeScript SDK 2.x (both eras).

import * as mcp from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import * as checks from '../lib/checks.mjs';
import { GATEWAY_CHECKS } from '../lib/gateway-checks.mjs';

const MODERN = '2026-07-28';
const args = checks.clientArgs();
const modern = args.era === 'modern';

function transport() {
  if (args.transport === 'http') return new mcp.StreamableHTTPClientTransport(new URL(args.url));
  if (args.transport === 'sse') return new mcp.SSEClientTransport(new URL(args.url));
  const [command, ...rest] = args.command;
  return new StdioClientTransport({ command, args: rest, stderr: 'inherit' });
}

const client = new mcp.Client(
  { name: 'peer-ts2', version: '1.0.0' },
  {
    capabilities: checks.CLIENT_CAPABILITIES,
    versionNegotiation: { mode: modern ? { pin: MODERN } : 'legacy' },
  },
);
client.onerror = (error) => console.error('client error:', error.message);
client.setRequestHandler('elicitation/create', ({ params }) => checks.elicited(params));
client.setRequestHandler('sampling/createMessage', ({ params }) => checks.sampled(params));
client.setRequestHandler('roots/list', () => checks.ROOTS);

/** A listen of the modern era; the SDK hands its notes to the ordinary handlers. */
async function listen(filter) {
  const subscription = await client.listen(filter);
  return () => subscription.close();
}

const link = transport();
await checks.runChecks(
  {
    async connect() {
      await client.connect(link);
      const got = client.getNegotiatedProtocolVersion();
      if ((got === MODERN) !== modern) throw new Error(`negotiated ${got} in the ${args.era} era`);
    },
    async close() {
      if (args.transport === 'http' && !modern) await link.terminateSession();
      await client.close();
    },
    call: (name, values, { meta, ...options } = {}) =>
      client.callTool({ name, arguments: values, ...(meta ? { _meta: meta } : {}) }, options),
    // `listTools()` without a cursor walks the pages by itself; the raw request does not.
    page: (cursor) => client.request({ method: 'tools/list', params: cursor === undefined ? {} : { cursor } }),
    resources: () => client.listResources(),
    prompts: () => client.listPrompts(),
    templates: () => client.listResourceTemplates(),
    complete: (params) => client.complete(params),
    read: (uri) => client.readResource({ uri }),
    prompt: (name, values) => client.getPrompt({ name, arguments: values }),
    on: (method, seen) => client.setNotificationHandler(method, seen),
    async wantLogs(level) {
      if (modern) return { meta: { [mcp.LOG_LEVEL_META_KEY]: level } };
      await client.setLoggingLevel(level);
    },
    async subscribe(uri) {
      if (modern) return listen({ resourceSubscriptions: [uri] });
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
    watchTools: async () => (modern ? listen({ toolsListChanged: true }) : async () => {}),
  },
  args,
  GATEWAY_CHECKS,
);
