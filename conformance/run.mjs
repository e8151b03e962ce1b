// Runs the official conformance suites against a server or with a client (README.md says how).

import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { announced, end, endAll, pause, start } from '../peers/lib/processes.mjs';
import { judge, parseExpected } from './lib/expected.mjs';
import { isolation } from './lib/isolation.mjs';
import { commandsOf, fillIn, LEFT_OUT, OAUTH_RUNS, suitesOf, TIMED } from './lib/suites.mjs';
import { checksUnder, forget, verdictOf } from './lib/verdicts.mjs';

const READY_MS = 30_000;
const SUITE_MS = 5 * 60_000;
const SCENARIO_MS = 60_000;
const WHOLE_RUN_MS = 20 * 60_000;
const USAGE = `node conformance/run.mjs server --url URL | --serve "CMD" [--at PATH] [--behind "CMD"] [OPTIONS]
node conformance/run.mjs client --command "CMD" [OPTIONS]
node conformance/run.mjs client --command "CMD" --oauth all|person [OPTIONS]
OPTIONS: --only REGEX, --expected FILE, --results FILE, --keep NAME, --brief`;
const at = (name) => fileURLToPath(new URL(name, import.meta.url));

function stop(message) {
  console.error(message);
  process.exit(2);
}

function options() {
  const text = { type: 'string' };
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      at: text,
      behind: text,
      brief: { type: 'boolean', default: false },
      command: text,
      expected: { ...text, default: at('expected-failures.txt') },
      keep: { ...text, default: 'last' },
      oauth: text,
      only: { ...text, default: '' },
      results: text,
      serve: text,
      url: text,
    },
  });
  const [side] = positionals;
  const targets = ['url', 'serve', 'command'].filter((name) => values[name]);
  const fits = side === 'client' ? targets[0] === 'command' : side === 'server' && targets[0] !== 'command';
  if (values.oauth && (side !== 'client' || !(values.oauth in OAUTH_RUNS))) stop(USAGE);
  if (positionals.length !== 1 || targets.length !== 1 || !fits) stop(USAGE);
  if (values.behind && !values.serve?.includes('{url}')) stop('--behind needs --serve with {url} in it');
  return { ...values, side, only: new RegExp(values.only) };
}

/** Runs one command of a suite to its end; gives what went wrong with the process itself, if anything did. */
async function run({ argv, scenario }, wrap) {
  const ms = scenario ? SCENARIO_MS : SUITE_MS;
  const said = [];
  const keep = (line) => (said.push(line), said.splice(0, said.length - 200));
  const handle = start('suite', [...wrap, ...argv], { onOut: keep, onErr: keep });
  await Promise.race([handle.ended, pause(ms, undefined, { ref: false })]);
  const late = handle.code === undefined;
  await end(handle, 1000);
  if (late) return `the suite did not end within ${ms / 1000} s`;
  if (handle.code === 0 || !scenario) return undefined;
  const last = said.filter((line) => line.trim()).slice(-3).join(' / ');
  return `the suite ended with ${handle.code}: ${last.slice(0, 400)}`;
}

/** Runs a suite and gives a verdict for each scenario that was wanted of it. */
async function runSuite(suite, target) {
  const output = path.join(at('../.cache/conformance'), target.keep, suite.name);
  fs.rmSync(output, { recursive: true, force: true });
  fs.mkdirSync(output, { recursive: true });
  const troubles = new Map();
  let whole;
  for (const command of commandsOf(suite, { ...target, output })) {
    let trouble = await run(command, target.wrap);
    if (TIMED.has(command.scenario) && trouble) {
      console.log(`again: ${suite.name} ${command.scenario} measures time, and this machine may have been busy`);
      forget(output, command.scenario);
      trouble = await run(command, target.wrap);
    }
    if (command.scenario) troubles.set(command.scenario, trouble);
    else whole = trouble;
  }
  const checks = checksUnder(output, suite.side);
  // In one command for all, trouble belongs to the scenarios that were not reached.
  const troubleOf = (name) => troubles.get(name) ?? (checks.has(name) ? undefined : whole);
  return suite.scenarios.map((name) => verdictOf(name, checks.get(name), troubleOf(name)));
}

function say(suite, result, { ok, excused, left, stale }, brief) {
  if (brief && ok && !excused.length) return;
  const word = ok ? (excused.length ? 'known' : 'ok   ') : result.verdict === 'warn' && !stale.length ? 'WARN ' : 'FAIL ';
  const skipped = result.skipped.length ? `, ${result.skipped.length} skipped` : '';
  console.log(`${word} ${suite.name} ${result.scenario}: ${result.passed.length} checks${skipped}`);
  for (const { id, status, message } of left) console.log(`      ${id} (${status.toLowerCase()}): ${message}`);
  for (const { id } of excused) console.log(`      ${id}: expected, see the list`);
  for (const { check, reason } of stale) {
    console.log(`      stale: ${check ?? 'the scenario'} passes, but is expected to fail: ${reason}`);
  }
}

const counted = ({ passed, failed, expected }) =>
  `${passed} passed, ${failed} failed${expected ? `, ${expected} expected to fail` : ''}`;

function report(suite, results, entries, seconds, brief) {
  const count = { passed: 0, failed: 0, expected: 0 };
  for (const result of results) {
    const judged = judge(suite.name, result, entries);
    count[!judged.ok ? 'failed' : judged.excused.length ? 'expected' : 'passed'] += 1;
    say(suite, result, judged, brief);
  }
  const out = suite.leftOut.length ? `, ${suite.leftOut.length} out of scope` : '';
  console.log(`${suite.name}: ${counted(count)}${out}, ${seconds.toFixed(1)} s`);
  return count;
}

/** The server to test: one that is there already, or one that we start and end. */
async function serverOf({ serve, url, behind, at: path }) {
  if (url) return { url, wrap: [], close: async () => {} };
  if (behind) {
    const far = await serverOf({ serve: behind });
    const near = await serverOf({ serve: serve.replaceAll('{url}', far.url), at: path });
    return { ...near, close: async () => (await near.close(), await far.close()) };
  }
  const begin = (onOut) => start('server', ['sh', '-c', `exec ${serve}`], { onOut });
  const [handle, found] = await announced(begin, (line) => /https?:\/\/\S+/.exec(line)?.[0], READY_MS);
  const close = async () => {
    if (!(await end(handle))) throw new Error('the server did not end within 5 s of SIGTERM');
  };
  return { url: path ? new URL(path, found).href : found, wrap: [], close };
}

function clientOf(command) {
  const wrap = isolation();
  if (!wrap) {
    console.log("NOT ISOLATED: the suite's mock servers listen on all interfaces, and a network namespace with");
    console.log('loopback alone cannot be made here (it takes unshare and ip, and mostly root).');
  }
  return { command, wrap: wrap ?? [], close: async () => {} };
}

/** Runs each suite; a server that is to speak what the suite is about is started anew when that changes. */
async function runAll(suites, values, each) {
  let target = values.side === 'client' ? clientOf(values.command) : undefined;
  let running;
  for (const suite of suites) {
    const wanted = values.serve && fillIn(values.serve, suite);
    if (!target || wanted !== running) {
      await target?.close();
      target = await serverOf({ ...values, serve: wanted });
      running = wanted;
    }
    const began = Date.now();
    each(suite, await runSuite(suite, { ...target, keep: values.keep }), (Date.now() - began) / 1000);
  }
  await target?.close();
}

function nameLeftOut(suites, side) {
  for (const rule of LEFT_OUT.filter((one) => one.side === side)) {
    const lines = suites.flatMap(({ name, leftOut }) => {
      const names = leftOut.filter((one) => rule.scenario.test(one));
      return names.length ? [`      ${name} (${names.length}): ${names.join(', ')}`] : [];
    });
    if (lines.length) console.log([`out of scope, because ${rule.reason}:`, ...lines].join('\n'));
  }
}

async function main() {
  const values = options();
  const entries = parseExpected(fs.readFileSync(values.expected, 'utf8'));
  const known = suitesOf(values.side, values.only, values.oauth);
  const runs = known.flatMap(({ scenarios }) => scenarios).length;
  if (values.oauth && !values.only.source.replace('(?:)', '') && runs !== OAUTH_RUNS[values.oauth]) {
    stop(`--oauth ${values.oauth} gives ${runs} runs instead of ${OAUTH_RUNS[values.oauth]}`);
  }
  const lost = entries.find(({ suite, scenario }) =>
    suite.startsWith(values.side) && !known.some(({ name, names }) => name === suite && names.includes(scenario)));
  if (lost) stop(`${values.expected} lists ${lost.suite} ${lost.scenario}, which no suite has`);
  const suites = known.filter(({ scenarios }) => scenarios.length);
  if (!suites.length) stop(`no scenario matches --only ${values.only.source}`);
  nameLeftOut(known, values.side);
  const total = { passed: 0, failed: 0, expected: 0 };
  const kept = {};
  await runAll(suites, values, (suite, results, seconds) => {
    kept[suite.name] = results;
    const count = report(suite, results, entries, seconds, values.brief);
    for (const key of Object.keys(total)) total[key] += count[key];
  });
  if (values.results) fs.writeFileSync(values.results, `${JSON.stringify(kept, undefined, 1)}\n`);
  const out = known.flatMap(({ leftOut }) => leftOut).length;
  console.log(`${counted(total)}${out ? `, ${out} out of scope` : ''}`);
  process.exit(total.failed ? 1 : 0);
}

process.on('exit', endAll);
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));
setTimeout(() => stop(`the run took longer than ${WHOLE_RUN_MS / 60_000} minutes`), WHOLE_RUN_MS).unref();
await main().catch((error) => stop(error.message));
