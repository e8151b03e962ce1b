// Runs the five programs that are written with our library and with rmcp, each against the
// other's: they claim to do the same (docs/library.md).
//
//   node peers/programs.mjs --ours FOLDER --rmcp FOLDER    the folders of the built programs

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import path from 'node:path';
import { parseArgs } from 'node:util';

const { values: folders } = parseArgs({ options: { ours: { type: 'string' }, rmcp: { type: 'string' } } });
assert(folders.ours && folders.rmcp, 'usage: programs.mjs --ours FOLDER --rmcp FOLDER');

/** Longer than any of them takes. */
const PATIENCE = 60_000;

const running = new Set();

function start(program, args) {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  running.add(child);
  const limit = setTimeout(() => child.kill('SIGKILL'), PATIENCE);
  child.once('close', () => {
    clearTimeout(limit);
    running.delete(child);
  });
  child.stdout.setEncoding('utf8');
  return child;
}

/** What a program prints that is told `input`; it has to succeed. */
async function output(program, args, input = '') {
  const child = start(program, args);
  child.stdin.end(input);
  let said = '';
  child.stdout.on('data', (text) => (said += text));
  const code = await new Promise((resolve, reject) => child.once('close', resolve).once('error', reject));
  assert.equal(code, 0, `${program} ${args.join(' ')} ended with ${code}: ${said}`);
  return said;
}

/** A program that serves HTTP, and the URL that it prints. */
async function serve(program) {
  const child = start(program, ['127.0.0.1:0']);
  const url = await new Promise((resolve, reject) => {
    child.stdout.once('data', (line) => resolve(line.trim()));
    child.once('close', () => reject(new Error(`${program} ended`)));
  });
  return { url, stop: () => child.kill('SIGKILL') };
}

const whose = Object.keys(folders);
const at = (who, program) => path.resolve(folders[who], program);

async function checkCalls(caller, server) {
  const count = ['count', '{"text": "one two", "what": "words"}'];
  const stdio = at(server, 'serve_stdio');
  for (const target of [stdio, ...whose.map((proxy) => `${at(proxy, 'proxy')} ${stdio}`)]) {
    const said = await output(at(caller, 'call'), [target, ...count]);
    assert.match(said, /^speaks 20\d\d-\d\d-\d\d\n/, said);
    assert(said.includes('has "count"\n') && said.includes('{\\"count\\":2}'), `${target}: ${said}`);
  }
  const embedded = await serve(at(server, 'embed'));
  const said = await output(at(caller, 'call'), [embedded.url, 'visit']);
  assert(said.includes('You are visitor 1'), said);
  const page = await fetch(embedded.url.replace('/mcp', '/visits'));
  assert.equal(await page.text(), '1 so far');
  embedded.stop();
}

async function checkAnswers(caller) {
  const asking = await serve(at('ours', 'serve_http'));
  const said = await output(at(caller, 'answer'), [asking.url, 'greet'], 'Ada\n');
  assert(said.startsWith('What is your name?\nname:\n') && said.includes('Hello, Ada!'), said);
  asking.stop();
}

try {
  for (const caller of whose) {
    await checkAnswers(caller);
    for (const server of whose) {
      await checkCalls(caller, server);
      console.log(`the programs of ${caller} and ${server} understand each other`);
    }
  }
} finally {
  for (const child of running) child.kill('SIGKILL');
}
