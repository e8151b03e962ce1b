// The checks of README.md for the TypeScript clients. They know no SDK: a
// client hands in a `peer` with connect, call, page, on, subscribe and so on.

import { parseArgs } from 'node:util';
import { setTimeout as pause } from 'node:timers/promises';
import { within } from './within.mjs';

const BOUND_MS = 10_000;
const LONG = { restart: 25_000, fails: 60_000 };
const FIXTURE_TOOLS = 11;
const MIB = 1 << 20;
const ODD_TEXT = 'naïve 日本語 🦀 \u0000\u2028\u2029 "quotes" \\ \r\n\t end';

export const ELICITED = { action: 'accept', content: { name: 'Ada Ünï 🦀' } };
export const ROOTS = { roots: [{ uri: 'file:///peer/root', name: 'peer root' }] };
/** A page is visited, a form filled in. */
export const elicited = ({ mode, url }) => {
  if (mode !== 'url') return ELICITED;
  return { action: url === 'https://peer.test/sign-in?a=1&b=%20' ? 'accept' : 'decline' };
};
const USED = { type: 'tool_use', id: 'use-1', name: 'weather', input: { city: 'Ulm' } };
export const sampled = (params) => {
  if (params.tools?.[0]?.name === 'weather') {
    return { role: 'assistant', model: 'peer-model', stopReason: 'toolUse', content: [USED] };
  }
  const { content } = params.messages[0];
  const words = (Array.isArray(content) ? content[0] : content).text;
  return { role: 'assistant', model: 'peer-model', content: { type: 'text', text: `sampled: ${words}` } };
};
export const CLIENT_CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {} };

const say = (value) => JSON.stringify(value);
export function expect(holds, detail) {
  if (!holds) throw new Error(detail);
}
export function same(got, wanted, what) {
  expect(say(got) === say(wanted), `${what}: ${say(got)?.slice(0, 300)} instead of ${say(wanted).slice(0, 300)}`);
}
export async function until(holds, what, ms = 5000) {
  const end = Date.now() + ms;
  while (!(await holds())) {
    expect(Date.now() < end, `${what} did not happen within ${ms} ms`);
    await pause(50);
  }
}

export async function textOf(peer, name, args, options) {
  const result = await peer.call(name, args, options);
  expect(!result.isError, `${name} answered with isError: ${say(result.content)}`);
  return result.content[0].text;
}

export async function everyTool(peer) {
  const pages = [];
  let cursor;
  do {
    const page = await peer.page(cursor);
    pages.push(page.tools.map((tool) => tool.name));
    cursor = page.nextCursor;
  } while (cursor !== undefined && pages.length < 20);
  return pages;
}

async function asked(peer, kind) {
  return JSON.parse(await textOf(peer, 'ask', { kind }));
}

const CHECKS = {
  async list(peer) {
    const pages = await everyTool(peer);
    const names = pages.flat();
    expect(pages.length > 1, `only ${pages.length} page of tools`);
    expect(names.length >= FIXTURE_TOOLS, `only ${names.length} tools`);
    expect(new Set(names).size === names.length, `a tool is listed twice: ${names}`);
    const { resources } = await peer.resources();
    same(resources.map((r) => r.uri).sort(), ['peer://static', 'peer://watched'], 'resources');
    const { prompts } = await peer.prompts();
    same(prompts.map((p) => p.name), ['greet'], 'prompts');
    same((await peer.read('peer://static')).contents[0].text, 'static', 'resource text');
    same((await peer.prompt('greet', { name: 'Ada' })).messages[0].content.text, 'Hello, Ada!', 'prompt text');
  },
  async echo(peer) {
    same(await textOf(peer, 'echo', { text: 'hello' }), 'hello', 'echo');
  },
  async unicode(peer) {
    same(await textOf(peer, 'echo', { text: ODD_TEXT }), ODD_TEXT, 'echo');
  },
  async big(peer) {
    const got = await textOf(peer, 'big', { bytes: MIB });
    same(got.length, MIB, 'length');
    expect(got === '0123456789abcdef'.repeat(MIB / 16), 'the pattern is broken');
  },
  async progress(peer) {
    const notes = [];
    const onprogress = ({ progress, total }) => notes.push([progress, total]);
    same(await textOf(peer, 'progress', { steps: 5 }, { onprogress }), 'done 5', 'result');
    same(notes, [[1, 5], [2, 5], [3, 5], [4, 5], [5, 5]], 'notes before the result');
  },
  async cancel(peer) {
    const tag = `cancel-${process.pid}-${Date.now()}`;
    const abort = new AbortController();
    const call = peer.call('slow', { ms: 8000, tag }, { signal: abort.signal }).then(
      () => 'answered', () => 'ended');
    await pause(300);
    abort.abort('no longer wanted');
    same(await Promise.race([call, pause(3000, 'hangs')]), 'ended', 'the call');
    await until(async () => (await textOf(peer, 'was_cancelled', { tag })) === 'true', 'the cancellation at the server');
  },
  async elicit(peer) {
    const { action, content } = await asked(peer, 'form');
    same({ action, content }, ELICITED, 'elicited');
  },
  async visit(peer) {
    same((await asked(peer, 'url')).action, 'accept', 'visited');
  },
  async sample_tools(peer) {
    const { stopReason, content } = await asked(peer, 'tools');
    const { type, id, name, input } = Array.isArray(content) ? content[0] : content;
    same([stopReason, { type, id, name, input }], ['toolUse', USED], 'sampled with tools');
  },
  async sample(peer) {
    const { role, model, content } = await asked(peer, 'sampling');
    const words = (Array.isArray(content) ? content[0] : content).text;
    same([role, model, words], ['assistant', 'peer-model', 'sampled: Say something'], 'sampled');
  },
  async roots(peer) {
    const { roots } = await asked(peer, 'roots');
    same(roots.map(({ uri, name }) => ({ uri, name })), ROOTS.roots, 'roots');
  },
  async log(peer) {
    const notes = [];
    peer.on('notifications/message', ({ params }) => notes.push([params.level, params.logger, params.data]));
    const options = await peer.wantLogs('info');
    same(await textOf(peer, 'log', { level: 'warning' }, options), 'logged', 'result');
    await until(() => notes.length >= 3, 'three log notes');
    same(await textOf(peer, 'log', { level: 'debug' }, options), 'logged', 'result');
    await pause(200);
    same(notes, [1, 2, 3].map((n) => ['warning', 'peer', `log ${n}`]), 'log notes');
  },
  async subscribe(peer) {
    const uris = [];
    peer.on('notifications/resources/updated', ({ params }) => uris.push(params.uri));
    const stop = await peer.subscribe('peer://watched');
    same(await textOf(peer, 'touch', {}), 'touched', 'result');
    await until(() => uris.length > 0, 'notifications/resources/updated');
    same(uris, ['peer://watched'], 'updates');
    await stop();
  },
  async list_changed(peer) {
    let notes = 0;
    peer.on('notifications/tools/list_changed', () => (notes += 1));
    const stop = await peer.watchTools();
    const name = await textOf(peer, 'grow', {});
    await until(() => notes > 0, 'notifications/tools/list_changed');
    expect((await everyTool(peer)).flat().includes(name), `${name} is not listed`);
    same(await textOf(peer, name, {}), name, 'the new tool');
    await stop();
  },
  async parallel(peer) {
    const texts = Array.from({ length: 20 }, (_, n) => `parallel ${n} ${'x'.repeat(n * 100)}`);
    same(await Promise.all(texts.map((text) => textOf(peer, 'echo', { text }))), texts, 'answers');
  },
  async unknown_tool(peer) {
    const refused = await peer.call('no_such_tool', {}).then((result) => result.isError === true, () => true);
    expect(refused, 'no_such_tool was answered without an error');
    same(await textOf(peer, 'echo', { text: 'after' }), 'after', 'the next echo');
  },
  async restart(peer) {
    const before = await textOf(peer, 'whoami', {});
    const died = await peer.call('die', {}).then((result) => result.isError === true, () => true);
    expect(died, 'die was answered');
    let after;
    const back = async () => {
      after = await textOf(peer, 'whoami', {}, { timeout: 2000 }).catch((error) => ((back.last = error), undefined));
      return after !== undefined;
    };
    await until(back, 'an answer after the restart', 10_000).catch((error) => {
      throw new Error(`${error.message}; the last error was: ${back.last?.message}`);
    });
    expect(after !== before, `the process id is still ${before}`);
  },
};

const DEFAULT = ['connect', ...Object.keys(CHECKS).filter((name) => name !== 'restart')];

/** The contract's command line; the command of a stdio server is in `command`. */
export function clientArgs() {
  const split = process.argv.indexOf('--');
  const own = split < 0 ? process.argv.slice(2) : process.argv.slice(2, split);
  const options = Object.fromEntries(
    ['era', 'transport', 'checks', 'url', 'patience'].map((name) => [name, { type: 'string' }]));
  const { values } = parseArgs({ args: own, options });
  return { ...values, command: split < 0 ? [] : process.argv.slice(split + 1) };
}

async function bounded(work, ms) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end within ${ms} ms`)), ms);
  });
  try {
    await Promise.race([work(), late]);
    return { ok: true };
  } catch (error) {
    return { ok: false, detail: String(error?.message ?? error).slice(0, 600) };
  } finally {
    clearTimeout(timer);
  }
}

/** A check by its name; `check@server` is that of one server behind a gateway. */
function checkOf(name, peer, more) {
  const [check, server] = name.split('@');
  const all = { ...CHECKS, ...more };
  if (check !== 'connect' && !Object.hasOwn(all, check)) throw new Error(`no check is called ${check}`);
  return () => all[check](server ? within(peer, server) : peer, server);
}

/** Runs the checks, of these or of `more`, prints a line for each, and ends the process with the verdict.
 * A check has `patience` seconds, 10 unless told. */
export async function runChecks(peer, { checks: wanted, patience }, more = {}) {
  const usual = patience ? Number(patience) * 1000 : BOUND_MS;
  let failed = 0;
  let connected = false;
  for (const check of wanted ? wanted.split(',') : DEFAULT) {
    const work = checkOf(check, peer, more);
    if (!connected) {
      const verdict = await bounded(() => peer.connect(), usual);
      connected = verdict.ok;
      if (check === 'connect' || !verdict.ok) {
        failed += verdict.ok ? 0 : 1;
        const shown = check === 'connect' ? verdict : { ok: false, detail: `not connected: ${verdict.detail}` };
        console.log(JSON.stringify({ check, ...shown }));
        continue;
      }
    }
    const verdict = await bounded(work, LONG[check.split('@')[0]] ?? usual);
    failed += verdict.ok ? 0 : 1;
    console.log(JSON.stringify({ check, ...verdict }));
  }
  await bounded(() => peer.close(), 5000);
  process.exit(failed ? 1 : 0);
}
