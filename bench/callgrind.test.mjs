// What counts as one function, and what of a profile is ours.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countOurs, functionOf } from './callgrind.mjs';

test('closures, parts of futures and instances for other types are one function', () => {
  for (const [symbol, name] of [
    ['a::b::go', 'a::b::go'],
    ['a::b::go::h0123456789abcdef', 'a::b::go'],
    ["a::b::go'2", 'a::b::go'],
    ['a::b::go::{{closure}}::{{closure}}', 'a::b::go'],
    ['a::b::go::{closure#0}', 'a::b::go'],
    ['a::Line<T>::go::<fn() -> u8>', 'a::Line::go'],
    ['<a::Line<T> as b::Way<U>>::go', '<a::Line as b::Way>::go'],
    ['<a::Line<T>>::go::{closure#1}', '<a::Line>::go'],
  ])
    assert.equal(functionOf(symbol), name);
});

test('what runs in a file of ours counts, and a step leads to another function of ours', () => {
  const profile = `
fl=/x/crates/net/src/face.rs
fn=net::face::open
10 5
cfi=/rustc/1/library/core/src/option.rs
cfn=core::option::map
calls=1 20
11 9

fl=/rustc/1/library/core/src/option.rs
fn=core::option::map
20 3
cfi=/x/crates/proto/src/json.rs
cfn=proto::json::walk
calls=1 30
21 4

fl=/x/crates/proto/src/json.rs
fn=proto::json::walk
30 4
fn=proto::json::walk::{{closure}}
31 4
fn=core::ptr::drop_in_place<proto::json::Walk>
32 1
`;
  assert.deepEqual(countOurs(profile), {
    files: ['net/src/face.rs', 'proto/src/json.rs'],
    functions: ['net/src/face.rs net::face::open', 'proto/src/json.rs proto::json::walk'],
    steps: ['net/src/face.rs net::face::open'],
  });
});
