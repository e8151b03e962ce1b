// Reads the `checks.json` files of a run and gives one verdict for each scenario.

import fs from 'node:fs';
import path from 'node:path';
import { EMPTY } from './suites.mjs';

const STAMP = /-\d{4}-\d{2}-\d{2}T[\d-]+Z$/;
const BAD = ['FAILURE', 'WARNING'];
/** What a folder's name has before the scenario's. */
const PREFIX = { server: 'server-', authorization: 'authorization-server-', client: '' };

/** The checks of each scenario under `output`, by name. A name may hold a slash and be a folder deeper. */
export function checksUnder(output, side) {
  const found = new Map();
  if (!fs.existsSync(output)) return found;
  for (const file of fs.readdirSync(output, { recursive: true })) {
    if (path.basename(file) !== 'checks.json') continue;
    const folder = path.dirname(file).split(path.sep).join('/').replace(STAMP, '');
    found.set(folder.slice(PREFIX[side].length), JSON.parse(fs.readFileSync(path.join(output, file), 'utf8')));
  }
  return found;
}

/** Takes away what was written for a scenario, before it is run again. */
export function forget(output, scenario) {
  for (const folder of fs.readdirSync(output)) {
    if (folder.replace(STAMP, '') === scenario) fs.rmSync(path.join(output, folder), { recursive: true });
  }
}

function oneLine(check) {
  const text = check.errorMessage || check.description || check.name || 'failed';
  return text.replace(/\s+/g, ' ').slice(0, 400);
}

/**
 * `{verdict, bad, passed, skipped}` for a scenario: the verdict is `pass`, `warn` or `fail`, and
 * `bad` has `{id, status, message}` for each check that is not as it should be. `trouble` is
 * what the suite's own process had to say, which counts when no check says it.
 */
export function verdictOf(scenario, checks, trouble) {
  const of = (status) => (checks ?? []).filter((check) => check.status === status);
  const bad = (checks ?? [])
    .filter(({ status }) => BAD.includes(status))
    .map((check) => ({ id: check.id, status: check.status, message: oneLine(check) }));
  const passed = of('SUCCESS').map(({ id }) => id);
  const skipped = of('SKIPPED').map(({ id }) => id);
  const note = (id, message) => bad.push({ id, status: 'FAILURE', message });
  if (!checks) note('no-verdict', trouble ?? 'the suite wrote no checks for it');
  else if (trouble && !bad.length) note('suite-exit', trouble);
  else if (!bad.length && !passed.length && !EMPTY.has(scenario)) {
    const only = checks.map(({ id, status }) => `${id} (${status.toLowerCase()})`).join(', ');
    note('nothing-checked', `no check could pass or fail: ${only || 'there was none'}`);
  }
  const verdict = bad.some(({ status }) => status === 'FAILURE') ? 'fail' : bad.length ? 'warn' : 'pass';
  return { scenario, verdict, bad, passed, skipped };
}
