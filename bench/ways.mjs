// Counts the functions and files of ours that one message passes (ARCHITECTURE.md says how).
//
//   node bench/ways.mjs [--list] [--only a|b|c]
//
// Needs valgrind, and `cargo build --workspace`.

import { parseArgs } from 'node:util';
import { countOurs } from './callgrind.mjs';
import { PEER, at, gateway as gatewayOf, legacyClient, modernCall, post, profile, traced } from './traced.mjs';

const BINARY = at('target/debug/switchboard');
const REST_MS = 1_500;

/** What happens in `work`, as counts. */
const counted = async (process, work) => countOurs(await profile(process, work, REST_MS));

/** A gateway with one legacy server over HTTP. */
const gateway = () => gatewayOf(BINARY, 'legacy');

function must(holds, seen) {
  if (!holds) throw new Error(`not what was expected: ${JSON.stringify(seen).slice(0, 1000)}`);
}

async function callWithProgress(url, headers) {
  const params = { name: 'progress', arguments: { steps: 1 }, _meta: { progressToken: 'p' } };
  const { messages } = await post(url, { id: 1, method: 'tools/call', params }, headers);
  must(messages.some(({ method }) => method === 'notifications/progress') && messages.at(-1).result, messages);
}

async function callWithQuestion(url) {
  const call = async (more) => {
    const { _meta, headers } = modernCall('it__ask', { elicitation: { form: {} } });
    const params = { name: 'it__ask', arguments: { kind: 'form' }, _meta, ...more };
    return (await post(url, { id: 1, method: 'tools/call', params }, headers)).messages.at(-1);
  };
  const asked = await call({});
  must(asked.result?.resultType === 'input_required', asked);
  const { inputRequests, requestState } = asked.result;
  const answer = { action: 'accept', content: { name: 'Ada' } };
  const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, answer]));
  const done = await call({ inputResponses, requestState });
  must(JSON.stringify(done.result?.content ?? '').includes('Ada'), done);
}

const WAYS = {
  a: {
    what: 'a legacy HTTP client, the bridge, a stdio server: a call with progress',
    async run() {
      const [process, url] = await traced(BINARY, ['bridge', '--port', '0', '--', ...PEER, 'stdio', '--era', 'legacy']);
      const headers = await legacyClient(url);
      await callWithProgress(url, headers);
      return counted(process, () => callWithProgress(url, headers));
    },
  },
  b: {
    what: 'a modern HTTP client, the gateway, a legacy HTTP server: a call with an elicitation',
    async run() {
      const { process, front } = await gateway();
      await callWithQuestion(front);
      return counted(process, () => callWithQuestion(front));
    },
  },
  c: {
    what: 'tools/list_changed of a legacy HTTP server, the gateway, a legacy HTTP client',
    async run() {
      const { process, front, url } = await gateway();
      const headers = await legacyClient(front);
      const response = await fetch(front, { headers: { ...headers, accept: 'text/event-stream' } });
      const stream = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const heard = async () => {
        for (let text = ''; !text.includes('notifications/tools/list_changed'); ) text += (await stream.read()).value;
      };
      const direct = await legacyClient(url);
      const grow = () => post(url, { id: 2, method: 'tools/call', params: { name: 'grow', arguments: {} } }, direct);
      await Promise.all([heard(), grow()]);
      return counted(process, () => Promise.all([heard(), grow()]));
    },
  },
};

async function main() {
  const { values } = parseArgs({ options: { list: { type: 'boolean' }, only: { type: 'string', default: 'abc' } } });
  console.log('| way | files | functions | of them steps |\n|---|---|---|---|');
  for (const [name, { what, run }] of Object.entries(WAYS).filter(([name]) => values.only.includes(name))) {
    const { files, functions, steps } = await run();
    console.log(`| (${name}) ${what} | ${files.length} | ${functions.length} | ${steps.length} |`);
    if (values.list) for (const one of functions) console.log(`    ${steps.includes(one) ? 'step' : '    '} ${one}`);
  }
}

await main();
process.exit(0);
