// The fixture that every TypeScript server offers (README.md has the contract).
// It knows no SDK: a server maps its SDK's context to the `call` that `runTool` takes.

const PATTERN = '0123456789abcdef';
const PAGE_SIZE = 3;
// The TypeScript clients drop a progress note that arrives in one read with the response.
const NOTE_PAUSE_MS = 50;
const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

const text = { type: 'string' };
const integer = { type: 'integer' };
const shapes = {
  ask: { kind: { type: 'string', enum: ['form', 'url', 'sampling', 'tools', 'roots'] } },
  big: { bytes: integer },
  die: {},
  echo: { text },
  grow: {},
  log: { level: { type: 'string', enum: LEVELS } },
  progress: { steps: integer },
  slow: { ms: integer, tag: text },
  touch: {},
  was_cancelled: { tag: text },
  whoami: {},
};

// Process-wide on purpose: the modern era has no session to hang it on.
const cancelled = new Set();
const grown = [];

const tool = (name, properties) => ({
  name,
  description: `The ${name} tool of the fixture.`,
  inputSchema: { type: 'object', properties, required: Object.keys(properties) },
});

export const SERVER = { name: 'peer-fixture', version: '1.0.0' };
export const CAPABILITIES = {
  tools: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  prompts: {},
  logging: {},
};
export const WATCHED = 'peer://watched';
export const RESOURCES = ['watched', 'static'].map((name) => ({
  uri: `peer://${name}`,
  name,
  mimeType: 'text/plain',
}));
export const PROMPTS = [
  { name: 'greet', description: 'Greets somebody.', arguments: [{ name: 'name', required: true }] },
];

export class BadParams extends Error {}

/** One page of the tool list; throws `BadParams` for a cursor that is not ours. */
export function toolPage(cursor) {
  const all = [...Object.entries(shapes), ...grown.map((name) => [name, {}])];
  const start = cursor === undefined ? 0 : Number(/^page-(\d+)$/.exec(cursor)?.[1] ?? NaN);
  if (!(start >= 0 && start < all.length)) throw new BadParams(`unknown cursor ${cursor}`);
  const end = start + PAGE_SIZE;
  return {
    tools: all.slice(start, end).map(([name, properties]) => tool(name, properties)),
    ...(end < all.length ? { nextCursor: `page-${end}` } : {}),
  };
}

export function readResource(uri) {
  const found = RESOURCES.find((resource) => resource.uri === uri);
  if (!found) throw new BadParams(`unknown resource ${uri}`);
  return { contents: [{ uri, mimeType: 'text/plain', text: found.name }] };
}

export function getPrompt(name, args) {
  if (name !== 'greet' || !args?.name) throw new BadParams(`unknown prompt ${name}, or no name`);
  return { messages: [{ role: 'user', content: { type: 'text', text: `Hello, ${args.name}!` } }] };
}

/** What `ask` puts to the client, as a request of either era. */
export const questions = {
  form: {
    method: 'elicitation/create',
    params: {
      mode: 'form',
      message: 'What is your name?',
      requestedSchema: { type: 'object', properties: { name: text }, required: ['name'] },
    },
  },
  url: {
    method: 'elicitation/create',
    params: {
      mode: 'url',
      message: 'Please sign in.',
      url: 'https://peer.test/sign-in?a=1&b=%20',
      elicitationId: 'visit-1',
    },
  },
  tools: {
    method: 'sampling/createMessage',
    params: {
      messages: [{ role: 'user', content: { type: 'text', text: 'How is the weather?' } }],
      maxTokens: 100,
      tools: [{ name: 'weather', inputSchema: { type: 'object', properties: { city: text } } }],
      toolChoice: { mode: 'required' },
    },
  },
  sampling: {
    method: 'sampling/createMessage',
    params: {
      messages: [{ role: 'user', content: { type: 'text', text: 'Say something' } }],
      maxTokens: 100,
    },
  },
  roots: { method: 'roots/list', params: {} },
};

export const saying = (words) => ({ content: [{ type: 'text', text: words }] });
export const atLeast = (level, floor) => LEVELS.indexOf(level) >= LEVELS.indexOf(floor);

function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(new Error('cancelled'));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop);
      resolve();
    }, ms);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
}

const tools = {
  ask: ({ kind }, call) => call.ask(questions[kind]),
  big: ({ bytes }) => saying(PATTERN.repeat(Math.ceil(bytes / PATTERN.length)).slice(0, bytes)),
  die: () => process.exit(7),
  echo: (args) => saying(args.text),
  async grow(_, call) {
    grown.push(`grown_${grown.length + 1}`);
    await call.listChanged();
    return saying(grown.at(-1));
  },
  async log({ level }, call) {
    for (const n of [1, 2, 3]) await call.log(level, `log ${n}`, 'peer');
    return saying('logged');
  },
  async progress({ steps }, call) {
    for (let n = 1; n <= steps; n += 1) {
      await call.progress(n, steps, `step ${n}`);
      await sleep(NOTE_PAUSE_MS, call.signal);
    }
    return saying(`done ${steps}`);
  },
  async slow({ ms, tag }, call) {
    call.signal.addEventListener('abort', () => cancelled.add(tag), { once: true });
    await sleep(ms, call.signal);
    return saying('slept');
  },
  async touch(_, call) {
    await call.updated(WATCHED);
    return saying('touched');
  },
  was_cancelled: ({ tag }) => saying(String(cancelled.has(tag))),
  whoami: () => saying(String(process.pid)),
};

/** Runs a tool; `call` offers signal, ask, log, progress, listChanged and updated. */
export async function runTool(name, args, call) {
  if (grown.includes(name)) return saying(name);
  if (!Object.hasOwn(tools, name)) throw new BadParams(`unknown tool ${name}`);
  return tools[name](args ?? {}, call);
}
