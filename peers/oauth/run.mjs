// Runs the OAuth flows of the binary against a certified authorization server (README.md says how).

import fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { endAll, pause } from '../lib/processes.mjs';
import { flows as ours } from './flows.mjs';
import { flows as clients } from './foreign-clients.mjs';
import { flows as servers } from './foreign-servers.mjs';
import { flows as secrets } from './secrets.mjs';
import { Bed } from './lib/bed.mjs';
import { AUTHORITIES } from './lib/gateway.mjs';
import { PYTHON } from './lib/python.mjs';
import { Switchboard } from './lib/switchboard.mjs';

const flows = [...ours, ...clients, ...servers, ...secrets];

const WHOLE_RUN_MS = 30 * 60_000;
const ROUNDS = { quick: 5, full: 100 };
const RUNS_OF_TOGETHER = { quick: 1, full: 20 };
const at = (path) => fileURLToPath(new URL(path, import.meta.url));

function stop(message) {
  console.error(message);
  process.exit(2);
}

function options() {
  const flag = { type: 'boolean', default: false };
  const { values } = parseArgs({
    options: {
      switchboard: { type: 'string', default: at('../../target/debug/switchboard') },
      only: { type: 'string', default: '' },
      authority: { type: 'string', default: 'provider' },
      full: flag,
      list: flag,
    },
  });
  if (!values.list && !fs.existsSync(values.switchboard)) stop(`no switchboard at ${values.switchboard}: run cargo build first`);
  if (!fs.existsSync(at('node_modules'))) stop('peers/oauth/node_modules is missing: run npm ci in peers/oauth');
  if (!fs.existsSync(PYTHON)) stop(`no Python at ${PYTHON}: run ./test.sh setup`);
  if (!AUTHORITIES[values.authority]) stop(`--authority is one of ${Object.keys(AUTHORITIES).join(', ')}`);
  return values;
}

/** Runs one flow in a bed of its own; gives what went wrong. */
async function runOne({ name, ms, work }, { switchboard: binary, full, authority }) {
  const bed = new Bed();
  const open = (browser) => new Switchboard(bed, binary, browser);
  const late = pause(ms, new Error(`did not end within ${ms / 1000} s`), { ref: false });
  try {
    const rounds = ROUNDS[full ? 'full' : 'quick'];
    const outcome = await Promise.race([work(bed, open, { binary, rounds, authority }).then(() => undefined), late]);
    return outcome?.message;
  } catch (error) {
    return error.message;
  } finally {
    await bed.close();
  }
}

async function runFlow(flow, values) {
  const times = flow.name.startsWith('ten bridges') ? RUNS_OF_TOGETHER[values.full ? 'full' : 'quick'] : 1;
  for (let time = 1; time <= times; time += 1) {
    const trouble = await runOne(flow, values);
    if (trouble) return times > 1 ? `run ${time} of ${times}: ${trouble}` : trouble;
  }
  return undefined;
}

async function main() {
  const values = options();
  const chosen = flows.filter(({ name }) => new RegExp(values.only).test(name));
  if (!chosen.length) stop(`no flow matches --only ${values.only}`);
  if (values.list) return chosen.forEach(({ name }) => console.log(name));
  const count = { passed: 0, failed: 0 };
  for (const flow of chosen) {
    const began = Date.now();
    const trouble = await runFlow(flow, values);
    const seconds = ((Date.now() - began) / 1000).toFixed(1);
    console.log(`${trouble ? 'FAIL     ' : 'ok       '} ${flow.name}, ${seconds} s`);
    if (trouble) console.log(trouble.split('\n').map((line) => `          ${line}`).join('\n'));
    count[trouble ? 'failed' : 'passed'] += 1;
  }
  console.log(Object.entries(count).map(([what, number]) => `${number} ${what}`).join(', '));
  process.exit(count.failed ? 1 : 0);
}

process.on('exit', endAll);
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));
setTimeout(() => stop(`the run took longer than ${WHOLE_RUN_MS / 60_000} minutes`), WHOLE_RUN_MS).unref();
await main();
