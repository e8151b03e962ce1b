// Servers that nobody wants: `hangs` never answers, `crashes` ends at every call,
// `floods` answers a call with a line that has no end, or with notes without end.

import readline from 'node:readline';

const [mode] = process.argv.slice(2);
const TOOLS = { crashes: ['crash'], floods: ['line', 'notes'], hangs: [] }[mode];
const write = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

const answers = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {}, logging: {} },
    serverInfo: { name: mode, version: '1.0.0' },
  }),
  'tools/list': () => ({ tools: TOOLS.map((name) => ({ name, inputSchema: { type: 'object' } })) }),
  'logging/setLevel': () => ({}),
  ping: () => ({}),
};

/** Writes the same for ever, as fast as it is read. */
function flood(text) {
  while (process.stdout.write(text));
  process.stdout.once('drain', () => flood(text));
}

function call({ name }) {
  if (mode === 'crashes') process.exit(3);
  if (name === 'line') return flood('x'.repeat(1 << 16));
  const params = { level: 'emergency', logger: 'flood', data: 'x'.repeat(1 << 12) };
  flood(`${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params })}\n`);
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (mode === 'hangs' || id === undefined || method === undefined) return;
  if (method === 'tools/call') return call(params);
  const answer = answers[method];
  if (answer) return write({ id, result: answer(params) });
  write({ id, error: { code: -32601, message: `no method ${method}` } });
});
if (mode === 'hangs') setInterval(() => {}, 1000); // It does not even end with its input.
