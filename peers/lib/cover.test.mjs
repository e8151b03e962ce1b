// The cover of the matrix leaves out no pair of values, and few cells are enough for it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cover } from './cover.mjs';
import { inspectorCells, ourInspectorCells } from './inspector.mjs';
import { cellsOf, ourCells, SDKS } from './matrix.mjs';

const DIMENSIONS = ['client', 'server', 'down', 'up', 'era', 'serverEra', 'feature'];
const through = [...cellsOf({ peers: SDKS, direct: false }), ...inspectorCells(false)];
const ours = [...ourCells([...SDKS, 'ours']), ...ourInspectorCells()];

/** Counted in another way than the cover counts: by looking for a cell that has both values. */
function meets(cells, [one, a], [other, b]) {
  const has = (cell, dimension, value) =>
    dimension === 'feature' ? cell.features.includes(value) : cell[dimension] === value;
  return cells.some((cell) => has(cell, one, a) && has(cell, other, b));
}

function valuesOf(cells, dimension) {
  const values = dimension === 'feature' ? cells.flatMap(({ features }) => features) : cells.map((cell) => cell[dimension]);
  return [...new Set(values)].filter((value) => value !== undefined);
}

for (const [name, all] of [['through the bridge', through], ['with our library', ours]]) {
  test(`every two values that meet in a cell ${name} meet in the cover`, () => {
    const chosen = cover(all);
    let pairs = 0;
    for (const [at, one] of DIMENSIONS.entries())
      for (const other of DIMENSIONS.slice(at + 1))
        for (const a of valuesOf(all, one))
          for (const b of valuesOf(all, other)) {
            if (!meets(all, [one, a], [other, b])) continue;
            pairs += 1;
            assert.ok(meets(chosen, [one, a], [other, b]), `no cell has ${one} ${a} and ${other} ${b}`);
          }
    assert.ok(pairs > 300, `${pairs} pairs`);
    assert.ok(chosen.length * 2 < all.length, `${chosen.length} of ${all.length} cells`);
  });

  test(`the cover ${name} is the same each time, without a cell twice`, () => {
    const names = (cells) => cells.map((cell) => cell.name);
    const chosen = names(cover(all));
    assert.deepEqual(names(cover(all)), chosen);
    assert.equal(new Set(chosen).size, chosen.length);
  });
}

test('every client, server, transport, era and feature is in the matrix through the bridge', () => {
  for (const peer of [...SDKS, 'inspector']) assert.ok(valuesOf(through, 'client').includes(peer));
  for (const peer of [...SDKS, 'everything']) assert.ok(valuesOf(through, 'server').includes(peer));
  for (const side of ['down', 'up']) assert.deepEqual(valuesOf(through, side).sort(), ['http', 'sse', 'stdio']);
  assert.deepEqual(valuesOf(through, 'era').sort(), ['legacy', 'modern']);
  assert.deepEqual(valuesOf(through, 'serverEra').sort(), ['both', 'legacy', 'modern']);
  assert.ok(valuesOf(through, 'feature').includes('restart'));
});
