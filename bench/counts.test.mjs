// The comparison of instruction counts: what fails, what is only told.

import assert from 'node:assert/strict';
import test from 'node:test';
import { compare, countsOf, read, table, write } from './counts.mjs';

const result = (id, count) => JSON.stringify({
  function_name: 'part',
  id,
  profiles: [{ data: { total: { metrics: { Ir: { values: { new: count } } } } } }],
});

test('counts are for one of a hundred repetitions', () => {
  const counts = countsOf(['a line of something else', result('a', 12345), result('b', '200'), ''].join('\n'));
  assert.deepEqual([...counts], [['part a', 123], ['part b', 2]]);
});

test('the file says what the counts were made with', () => {
  const counts = new Map([['part a', 1], ['call b', 23456]]);
  assert.deepEqual(read(write('rustc 1, x64', counts)), { made: 'rustc 1, x64', counts });
});

test('growth beyond the limit is wrong, and growth up to it is not', () => {
  const before = new Map([['a', 1000], ['b', 1000], ['c', 1000], ['d', 1000]]);
  const now = new Map([['a', 1030], ['b', 1031], ['c', 960], ['d', 971]]);
  const { wrong, better } = compare(before, now, 0.03);
  assert.deepEqual(wrong, ['b: +3.10 %']);
  assert.deepEqual(better, ['c: -4.00 %']);
  assert.deepEqual(compare(before, now, 0.1).wrong, []);
});

test('what is not kept or not counted is wrong', () => {
  const { wrong } = compare(new Map([['a', 1]]), new Map([['b', 1]]), 0.03);
  assert.deepEqual(wrong, ['a: it was not counted', 'b: no count is kept of it']);
});

test('the table has a row for each count', () => {
  const { rows } = compare(new Map([['part a', 1000]]), new Map([['part a', 1010], ['b', 5]]), 0.03);
  assert.equal(table(rows), [
    'instructions  before    now   change',
    'part a         1,000  1,010  +1.00 %',
    'b                  -      5        -',
  ].join('\n'));
});
