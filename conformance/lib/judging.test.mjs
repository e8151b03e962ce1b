// How a run is judged. `node --test conformance/lib/*.test.mjs`

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { judge, parseExpected } from './expected.mjs';
import { fillIn, namesIn } from './suites.mjs';
import { verdictOf } from './verdicts.mjs';

const check = (id, status) => ({ id, status, errorMessage: `${id} says ${status}` });
const SUITE = 'server/stable';
const judged = (list, checks) => judge(SUITE, verdictOf('ping', checks), parseExpected(list));

test('a warning is not a pass', () => {
  assert.equal(verdictOf('ping', [check('a', 'SUCCESS'), check('b', 'WARNING')]).verdict, 'warn');
});

test('a scenario without checks, or with skipped ones only, fails', () => {
  assert.equal(verdictOf('ping', undefined).bad[0].id, 'no-verdict');
  assert.equal(verdictOf('ping', [check('a', 'SKIPPED')]).bad[0].id, 'nothing-checked');
  assert.equal(verdictOf('tasks-status-notifications', [check('a', 'SKIPPED')]).verdict, 'pass');
});

test('what went wrong with the process fails a scenario whose checks all pass', () => {
  assert.equal(verdictOf('ping', [check('a', 'SUCCESS')], 'ended with 1').bad[0].message, 'ended with 1');
});

test('a listed check is excused, another one in the same scenario is not', () => {
  const list = 'server/stable ping:a | the suite misreads STD-5\n';
  assert.equal(judged(list, [check('a', 'FAILURE')]).ok, true);
  const both = judged(list, [check('a', 'FAILURE'), check('b', 'WARNING')]);
  assert.equal(both.ok, false);
  assert.deepEqual(both.left.map(({ id }) => id), ['b']);
});

test('a listed scenario or check that passes is stale', () => {
  for (const use of ['ping', 'ping:a']) {
    const { ok, stale } = judged(`server/stable ${use} | STD-5 forbids it\n`, [check('a', 'SUCCESS')]);
    assert.equal(ok, false);
    assert.equal(stale.length, 1);
  }
});

test('an entry of another suite excuses nothing', () => {
  assert.equal(judged('server/2025-11-25 ping | STD-5 forbids it\n', [check('a', 'FAILURE')]).ok, false);
});

test('an entry needs a suite, a scenario and a reason that names a rule, once', () => {
  const fine = 'server/stable ping:a | STD-5 forbids it\n';
  for (const list of ['ping | STD-5\n', 'server/stable ping\n', 'server/stable ping | because\n', fine + fine]) {
    assert.throws(() => parseExpected(list), /^Error: line \d/);
  }
});

test('a server is told the revision and the era that a suite is about', () => {
  const told = (set) => fillIn('demo {revision} {era} {era}', { set });
  assert.equal(told('2025-06-18'), 'demo 2025-06-18 legacy legacy');
  assert.equal(told('2026-07-28'), 'demo 2026-07-28 modern modern');
  assert.equal(told('stable'), 'demo 2025-11-25 legacy legacy');
});

test('unscored scenarios of a set are among its names', () => {
  const listing = [
    'Required for X (2 scenarios):', '', 'Server scenarios (test against a server):', '  - one', '',
    'Client scenarios (test against a client):', '  - two', '', 'Run and reported, but never scored:',
    '  pending (2):', '    - three [server]', '    - four [client]',
  ].join('\n');
  assert.deepEqual(namesIn(listing, 'server'), ['one', 'three']);
  assert.deepEqual(namesIn(listing, 'client'), ['two', 'four']);
});
