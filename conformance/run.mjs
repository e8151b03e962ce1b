// Runs the official conformance suites against a server or with a client (README.md says how).

import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { announced, end, endAll, pause, start } from '../peers/lib/processes.mjs';
import { judge, parseExpected } from './lib/expected.mjs';
import { isolation } from './lib/isolation.mjs';
import { commandsOf, LEFT_OUT, suitesOf } from './lib/suites.mjs';
import { checksUnder, verdictOf } from './lib/verdicts.mjs';

const READY_MS = 30_000;
const SUITE_MS = 5 * 60_000;
const SCENARIO_MS = 60_000;
const WHOLE_RUN_MS = 20 * 60_000;
const USAGE = `node conformance/run.mjs server --url URL | --serve "CMD" [--behind "CMD"] [--only REGEX] [--expected FILE] [--results FILE]
node conformance/run.mjs client --command "CMD" [--only REGEX] [--expected FILE] [--results FILE]`;
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
      behind: text,
      command: text,
      expected: { ...text, default: at('expected-failures.txt') },
      only: { ...text, default: '' },
      results: text,
      serve: text,
      url: text,
    },
  });
  const [side] = positionals;
  const targets = ['url', 'serve', 'command'].filter((name) => values[name]);
  const fits = side === 'client' ? targets[0] === 'command' : side === 'server' && targets[0] !== 'command';
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
  const output = path.join(at('../.cache/conformance'), suite.name);
  fs.rmSync(output, { recursive: true, force: true });
  fs.mkdirSync(output, { recursive: true });
  const troubles = new Map();
  let whole;
  for (const command of commandsOf(suite, { ...target, output })) {
    const trouble = await run(command, target.wrap);
    if (command.scenario) troubles.set(command.scenario, trouble);
    else whole = trouble;
  }
  const checks = checksUnder(output, suite.side);
  // In one command for all, trouble belongs to the scenarios that were not reached.
  const troubleOf = (name) => troubles.get(name) ?? (checks.has(name) ? undefined : whole);
  return suite.scenarios.map((name) => verdictOf(name, checks.get(name), troubleOf(name)));
}

function say(suite, result, { ok, excused, left, stale }) {
  const word = ok ? (excused.length ? 'known' : 'ok   ') : result.verdict === 'warn' && !stale.length ? 'WARN ' : 'FAIL ';
  const skipped = result.skipped.length ? `, ${result.skipped.length} skipped` : '';
  console.log(`${word} ${suite.name} ${result.scenario}: ${result.passed.length} checks${skipped}`);
  for (const { id, status, message } of left) console.log(`      ${id} (${status.toLowerCase()}): ${message}`);
  for (const { id } of excused) console.log(`      ${id}: expected, see expected-failures.txt`);
  for (const { check, reason } of stale) {
    console.log(`      stale: ${check ?? 'the scenario'} passes, but is expected to fail: ${reason}`);
  }
}

const counted = ({ passed, failed, expected }) =>
  `${passed} passed, ${failed} failed${expected ? `, ${expected} expected to fail` : ''}`;

function report(suite, results, entries, seconds) {
  const count = { passed: 0, failed: 0, expected: 0 };
  for (const result of results) {
    const judged = judge(suite.name, result, entries);
    count[!judged.ok ? 'failed' : judged.excused.length ? 'expected' : 'passed'] += 1;
    say(suite, result, judged);
  }
  const out = suite.leftOut ? `, ${suite.leftOut} left out` : '';
  console.log(`${suite.name}: ${counted(count)}${out}, ${seconds.toFixed(1)} s`);
  return count;
}

/** The server to test: one that is there already, or one that we start and end. */
async function serverOf({ url, serve, behind }) {
  if (url) return { url, close: async () => true };
  if (behind) {
    const far = await serverOf({ serve: behind });
    const near = await serverOf({ serve: serve.replaceAll('{url}', far.url) });
    return { url: near.url, close: async () => (await near.close()) && far.close() };
  }
  const begin = (onOut) => start('server', ['sh', '-c', `exec ${serve}`], { onOut });
  const [handle, found] = await announced(begin, (line) => /https?:\/\/\S+/.exec(line)?.[0], READY_MS);
  return { url: found, close: () => end(handle) };
}

async function targetOf(values) {
  if (values.side === 'server') return { ...(await serverOf(values)), wrap: [] };
  for (const { side, scenario, reason } of LEFT_OUT) {
    if (side === 'client') console.log(`left out: ${scenario.source}: ${reason}`);
  }
  const wrap = isolation();
  if (!wrap) {
    console.log("NOT ISOLATED: the suite's mock servers listen on all interfaces, and a network namespace with");
    console.log('loopback alone cannot be made here (it takes unshare and ip, and mostly root).');
  }
  return { command: values.command, wrap: wrap ?? [], close: async () => true };
}

async function main() {
  const values = options();
  const entries = parseExpected(fs.readFileSync(values.expected, 'utf8'));
  const known = suitesOf(values.side, values.only);
  const lost = entries.find(({ suite, scenario }) =>
    suite.startsWith(values.side) && !known.some(({ name, names }) => name === suite && names.includes(scenario)));
  if (lost) stop(`${values.expected} lists ${lost.suite} ${lost.scenario}, which no suite has`);
  const suites = known.filter(({ scenarios }) => scenarios.length);
  if (!suites.length) stop(`no scenario matches --only ${values.only.source}`);
  const target = await targetOf(values);
  const total = { passed: 0, failed: 0, expected: 0 };
  const kept = {};
  for (const suite of suites) {
    const began = Date.now();
    kept[suite.name] = await runSuite(suite, target);
    const count = report(suite, kept[suite.name], entries, (Date.now() - began) / 1000);
    for (const key of Object.keys(total)) total[key] += count[key];
  }
  const gentle = await target.close();
  if (!gentle) console.log('FAIL  the server did not end within 5 s of SIGTERM');
  if (values.results) fs.writeFileSync(values.results, `${JSON.stringify(kept, undefined, 1)}\n`);
  console.log(counted(total));
  process.exit(total.failed || !gentle ? 1 : 0);
}

process.on('exit', endAll);
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));
setTimeout(() => stop(`the run took longer than ${WHOLE_RUN_MS / 60_000} minutes`), WHOLE_RUN_MS).unref();
await main().catch((error) => stop(error.message));
