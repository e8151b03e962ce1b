// What the check of the documents finds in a page and in a file of Rust.

import assert from 'node:assert/strict';
import test from 'node:test';
import { anchors, errors, fact, findings, links, messages } from './check.mjs';

test('headings are anchors, twice the same one is numbered, and code has none', () => {
  const page = '# The server\'s `timeout`\n```sh\n# not a heading\n```\n## A [link](b.md), twice\n## A link, twice\n';
  assert.deepEqual([...anchors(page)], ['the-servers-timeout', 'a-link-twice', 'a-link-twice-1']);
});

test('links inside of the repository are found, and those in code and elsewhere are not', () => {
  const page = '[a](b.md#c) `[d](e.md)` [f](https://g.example/h)\n```text\n[i](j.md)\n```\n[k]: l.md\n[^m]: a remark\n';
  assert.deepEqual(links(page), ['b.md#c', 'l.md']);
});

test('the fact of a message is its first clause of three words', () => {
  assert.equal(fact('{program} is in no directory of PATH; install it, or give its full path'), 'is in no directory of PATH');
  assert.equal(fact('traces are not taken: {why}'), 'traces are not taken');
  assert.equal(fact('${{{inner}}} is no variable that we know'), 'is no variable that we know');
  assert.equal(fact('made {}: the key \\\n         keeps tokens'), 'the key keeps tokens');
});

test('warnings and errors of the log are found, and those of tests are not', () => {
  const code = `
    tracing::warn!(server = self.name, "its lists are not kept: {error}");
    tracing::error!("{problem}; {}", problem.instead);
    tracing::info!("this is no trouble");
    #[cfg(test)]
    mod tests { fn f() { tracing::warn!("only in a test"); } }`;
  assert.deepEqual(messages(code), ['its lists are not kept']);
});

test('texts of errors and ids of findings are found', () => {
  assert.deepEqual(errors('#[error(\n    "session {id} is over now"\n)]\n#[error("{0}")]'), ['is over now']);
  assert.deepEqual(findings('found.add(Error, "http.404", "HTTP-1", what, "slow");'), ['http.404', 'slow']);
});
