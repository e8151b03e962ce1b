// The checks of a gateway for the TypeScript clients: lists of many servers, every
// feature of `server-everything`, and servers that are bad at what they do.

import { setTimeout as pause } from 'node:timers/promises';
import { ELICITED, ROOTS, everyTool, expect, same, textOf, until } from './checks.mjs';

const DEFERRED = 'switchboard/deferred';
const LEGAL = /^[A-Za-z0-9_-]{1,64}$/;
const TEXT = 'demo://resource/dynamic/text';

const texts = ({ content }) => content.map(({ text }) => text).join('\n');
const offers = (list, name) => expect(list.some((item) => item.name === name), `${name} is not listed`);

/** Does the work, and waits for a note of this method that `fits`. */
async function heard(peer, method, fits, work) {
  let seen = false;
  peer.on(method, (note) => (seen ||= fits(note.params)));
  await work();
  await until(() => seen, method);
}

export const GATEWAY_CHECKS = {
  /** Everybody's tools have a name that clients take, and no name is there twice. */
  async names(peer) {
    const names = (await everyTool(peer)).flat();
    same(names.filter((name) => !LEGAL.test(name)), [], 'names that are not legal');
    same(names.length, new Set(names).size, 'names');
  },
  /** The server's tools are listed. */
  async listed(peer) {
    expect((await everyTool(peer)).flat().length > 0, 'no tool of it is listed');
  },
  /** Every list says that this server is not in it. */
  async deferred(peer, server) {
    for (const list of [peer.page, peer.prompts, peer.resources, peer.templates]) {
      const late = (await list())._meta?.[DEFERRED] ?? [];
      expect(late.some((it) => it.server === server), `${server} is not named: ${JSON.stringify(late)}`);
    }
  },
  async fixture_lists(peer) {
    offers((await peer.prompts()).prompts, 'greet');
    same((await peer.prompt('greet', { name: 'Ada' })).messages[0].content.text, 'Hello, Ada!', 'prompt text');
    const { resources } = await peer.resources();
    expect(resources.some(({ uri }) => uri === 'peer://static'), 'peer://static is not listed');
    same((await peer.read('peer://static')).contents[0].text, 'static', 'resource text');
  },
  /** As `subscribe`, where somebody else may touch the resource at the same time. */
  async updates(peer) {
    let stop;
    await heard(peer, 'notifications/resources/updated', ({ uri }) => uri === 'peer://watched', async () => {
      stop = await peer.subscribe('peer://watched');
      same(await textOf(peer, 'touch', {}), 'touched', 'result');
    });
    await stop();
  },
  /** As `list_changed`, where somebody else may add tools at the same time. */
  async grows(peer) {
    let stop;
    let name;
    await heard(peer, 'notifications/tools/list_changed', () => true, async () => {
      stop = await peer.watchTools();
      name = await textOf(peer, 'grow', {});
    });
    await until(async () => (await everyTool(peer)).flat().includes(name), `${name} in the list`);
    same(await textOf(peer, name, {}), name, 'the new tool');
    await stop();
  },
  async everything(peer) {
    const word = `word ${Math.random()}`;
    same(await textOf(peer, 'echo', { message: word }), `Echo: ${word}`, 'echo');
    same(await textOf(peer, 'get-sum', { a: 2, b: 3 }), 'The sum of 2 and 3 is 5.', 'sum');
    const { structuredContent } = await peer.call('get-structured-content', { location: 'Chicago' });
    same(structuredContent?.temperature, 36, 'structured content');
    const image = (await peer.call('get-tiny-image', {})).content.find(({ type }) => type === 'image');
    expect(image?.data.length > 100, 'there is no image');
  },
  async everything_prompts(peer) {
    offers((await peer.prompts()).prompts, 'args-prompt');
    const { messages } = await peer.prompt('args-prompt', { city: 'Ulm' });
    same(messages[0].content.text, "What's weather in Ulm?", 'prompt');
    const ref = { type: 'ref/prompt', name: 'completable-prompt' };
    const first = await peer.complete({ ref, argument: { name: 'department', value: 'S' } });
    same(first.completion.values, ['Sales', 'Support'], 'completion');
    const context = { arguments: { department: 'Sales' } };
    const second = await peer.complete({ ref, argument: { name: 'name', value: 'E' }, context });
    same(second.completion.values, ['Eve'], 'completion with a context');
  },
  async everything_resources(peer) {
    const { resources } = await peer.resources();
    const file = resources.find(({ uri }) => uri.startsWith('demo://resource/static/'));
    expect(file, 'no static resource is listed');
    expect((await peer.read(file.uri)).contents[0].text?.length > 0, `${file.uri} is empty`);
    const { resourceTemplates } = await peer.templates();
    expect(resourceTemplates.some(({ uriTemplate }) => uriTemplate === `${TEXT}/{resourceId}`), 'no template is listed');
    expect((await peer.read(`${TEXT}/7`)).contents[0].text.startsWith('Resource 7:'), 'the template reads otherwise');
    const ref = { type: 'ref/resource', uri: `${TEXT}/{resourceId}` };
    const { completion } = await peer.complete({ ref, argument: { name: 'resourceId', value: '12' } });
    same(completion.values, ['12'], 'completion of a template');
  },
  async everything_progress(peer) {
    const notes = [];
    // Without a total it is the 2.x SDK, which counts rounds of questions. The server asks for
    // roots soon after its start, which may be during this call.
    const onprogress = ({ progress, total }) => total && notes.push([progress, total]);
    await textOf(peer, 'trigger-long-running-operation', { duration: 0.3, steps: 3 }, { onprogress });
    // The last may come in one read with the response, and then the SDK throws it away.
    expect(notes.length >= 2, `only ${notes.length} notes of progress`);
    same(notes, [[1, 3], [2, 3], [3, 3]].slice(0, notes.length), 'notes');
  },
  async everything_elicit(peer) {
    const told = texts(await peer.call('trigger-elicitation-request', {}));
    expect(told.includes(ELICITED.content.name), `the answer is not there: ${told.slice(0, 200)}`);
  },
  async everything_sample(peer) {
    const told = texts(await peer.call('trigger-sampling-request', { prompt: 'hello', maxTokens: 10 }));
    expect(told.includes('sampled: Resource trigger-sampling-request context: hello'), told.slice(0, 200));
  },
  async everything_roots(peer) {
    const told = texts(await peer.call('get-roots-list', {}));
    expect(told.includes(ROOTS.roots[0].uri), told.slice(0, 200));
  },
  async everything_updates(peer) {
    const uri = `${TEXT}/1`;
    let stop;
    await heard(peer, 'notifications/resources/updated', (params) => params.uri === uri, async () => {
      stop = await peer.subscribe(uri);
      await textOf(peer, 'toggle-subscriber-updates', {});
    });
    await textOf(peer, 'toggle-subscriber-updates', {});
    await stop();
  },
  /** As a task where the SDK has them; else whoever stands before us waits for its end. */
  async everything_task(peer) {
    const args = { topic: 'boards', ambiguous: true };
    if (!peer.task) {
      const told = await textOf(peer, 'simulate-research-query', args);
      return expect(told.includes('boards'), `the report is about something else: ${told.slice(0, 200)}`);
    }
    const seen = await peer.task('simulate-research-query', args);
    const kinds = seen.map(({ type }) => type);
    same([kinds[0], kinds.at(-1)], ['taskCreated', 'result'], `first and last of ${kinds}`);
    expect(texts(seen.at(-1).result).includes('boards'), 'the report is about something else');
  },
  async container(peer) {
    same(await textOf(peer, 'inside', {}), 'process 1 in a container', 'tool');
    same((await peer.prompt('boxed', {})).messages[0].content.text, 'boxed', 'prompt');
    same((await peer.read('box://shell')).contents[0].text, 'a shell', 'resource');
  },
  /** Calls to a bad server fail, each, with an error of the protocol and not for lack of an answer. */
  async fails(peer, server) {
    const tools = { crashes: ['crash', 'crash', 'crash'], floods: ['line', 'line'], hangs: ['anything'] }[server];
    for (const tool of tools) {
      const failed = await peer.call(tool, {}, { timeout: 55_000 }).then(
        (result) => (result.isError ? 'isError' : `answered ${JSON.stringify(result).slice(0, 100)}`),
        (error) => (typeof error.code === 'number' && !/-32001: Request timed out/.test(error.message) ? 'error' : String(error)),
      );
      expect(['isError', 'error'].includes(failed), `${tool}: ${failed}`);
    }
  },
  /** A call that is answered with notes without end is given up, and is over at both sides. */
  async drowns(peer) {
    const abort = new AbortController();
    const call = peer.call('notes', {}, { signal: abort.signal }).then(() => 'answered', () => 'ended');
    await pause(1500);
    abort.abort('enough');
    same(await Promise.race([call, pause(3000, 'hangs')]), 'ended', 'the call');
  },
};
