// Forms from JSON Schema: every kind is drawn, and what is written is read back.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start } from './bed.mjs';
import { signIn, withBrowser } from './browser.mjs';

const object = (properties, more = {}) => ({ type: 'object', properties, ...more });
const one = (schema) => object({ x: schema });

/** A name, a schema, a value that it must read back, and whether it falls back to JSON. @type {[string, object, object, boolean?][]} */
const SCHEMAS = [
  ['string', one({ type: 'string' }), { x: 'a' }],
  ['an empty text', one({ type: 'string' }), { x: '' }],
  ['lines', one({ type: 'string' }), { x: 'a\nb' }],
  ['long text', one({ type: 'string', maxLength: 1000 }), { x: 'a' }],
  ['date', one({ type: 'string', format: 'date' }), { x: '2026-11-17' }],
  ['date and time', one({ type: 'string', format: 'date-time' }), { x: '2026-11-17T20:00:00.000Z' }],
  ['email', one({ type: 'string', format: 'email' }), { x: 'a@example.com' }],
  ['uri', one({ type: 'string', format: 'uri' }), { x: 'https://example.com/' }],
  ['password', one({ type: 'string', format: 'password' }), { x: 'secret' }],
  ['number', one({ type: 'number', minimum: 0, maximum: 10 }), { x: 2.5 }],
  ['integer', one({ type: 'integer', multipleOf: 5 }), { x: 15 }],
  ['boolean, optional', one({ type: 'boolean' }), { x: false }],
  ['boolean, left out', one({ type: 'boolean' }), {}],
  ['boolean, required', object({ x: { type: 'boolean' } }, { required: ['x'] }), { x: true }],
  ['null in a type', one({ type: ['string', 'null'] }), { x: null }],
  ['optional as Python writes it', one({ anyOf: [{ type: 'integer' }, { type: 'null' }], default: null }), { x: 3 }],
  ['enum', one({ enum: ['a', 2, true] }), { x: 2 }],
  ['titled choices', one({ oneOf: [{ const: 'a', title: 'A' }, { const: 'b', title: 'B' }] }), { x: 'b' }],
  ['const', one({ const: 'only' }), { x: 'only' }],
  ['several choices', one({ type: 'array', items: { enum: ['a', 'b', 'c'] }, uniqueItems: true }), { x: ['a', 'c'] }],
  ['several titled choices', one({ type: 'array', items: { anyOf: [{ const: 'a', title: 'A' }, { const: 'b', title: 'B' }] } }), { x: ['b'] }],
  ['nested object', one(object({ y: object({ z: { type: 'string' } }) })), { x: { y: { z: 'deep' } } }],
  ['map', one({ type: 'object', additionalProperties: { type: 'number' } }), { x: { a: 1, b: 2 } }],
  ['array of objects', one({ type: 'array', items: object({ y: { type: 'string' } }) }), { x: [{ y: '1' }, { y: '2' }] }],
  ['an empty array', one({ type: 'array', items: { type: 'string' } }), { x: [] }],
  ['tuple, 2020-12', one({ type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }] }), { x: ['a', 1] }],
  ['tuple, draft 7', one({ type: 'array', items: [{ type: 'string' }, { type: 'number' }] }), { x: ['a', 1] }],
  ['$ref to $defs', { ...one({ $ref: '#/$defs/y' }), $defs: { y: { type: 'string' } } }, { x: 'a' }],
  ['$ref to definitions', { ...one({ $ref: '#/definitions/y' }), definitions: { y: { type: 'number' } } }, { x: 1 }],
  ['recursion', { ...object({ name: { type: 'string' }, children: { type: 'array', items: { $ref: '#' } } }) }, { name: 'a', children: [{ name: 'b', children: [{ name: 'c' }] }] }],
  ['allOf', { allOf: [object({ a: { type: 'string' } }), object({ b: { type: 'number' } }, { required: ['b'] })] }, { a: 'x', b: 1 }],
  ['oneOf of objects', one({ oneOf: [object({ kind: { const: 'a' }, a: { type: 'string' } }, { required: ['kind'] }), object({ kind: { const: 'b' }, b: { type: 'number' } }, { required: ['kind'] })] }), { x: { kind: 'b', b: 2 } }],
  ['anyOf at the root', { anyOf: [object({ a: { type: 'string' } }, { required: ['a'], additionalProperties: false }), object({ b: { type: 'number' } }, { required: ['b'], additionalProperties: false })] }, { b: 2 }],
  ['anyOf of required at the root', object({ a: { type: 'string' }, b: { type: 'string' } }, { anyOf: [{ required: ['a'] }, { required: ['b'] }] }), { b: 'x' }],
  ['two types', one({ type: ['string', 'number'] }), { x: 4 }],
  ['members that the schema does not know', object({ a: { type: 'string' } }), { a: 'x', other: { y: 1 } }],
  ['__proto__ as a member', one({ type: 'object', additionalProperties: { type: 'string' } }), JSON.parse('{"x": {"__proto__": "own"}}')],
  ['nothing at all', {}, { a: 1 }, true],
  ['if and then', one({ if: { type: 'string' }, then: { minLength: 2 } }), { x: 'ab' }, true],
  ['a reference to nowhere', one({ $ref: '#/$defs/none' }), { x: { y: 1 } }, true],
];

let bed;
before(async () => { bed = await start(); });
after(() => bed.stop());

/** Has the page's own modules draw each schema, write the value, and read it back. */
const drawn = (page, schemas) => page.evaluate(async (text) => {
  const all = JSON.parse(text);
  const base = document.querySelector('script[type=module]').src.replace(/main\.js$/, '');
  const { form } = await import(`${base}form.js`);
  return all.map(([name, schema, value]) => {
    const made = form(schema);
    document.querySelector('main').replaceChildren(made.node);
    if (value !== undefined) made.set(value);
    return { name, read: JSON.stringify(made.get()), ok: made.check(), isJson: Boolean(made.node.querySelector('textarea.mono')) };
  });
}, JSON.stringify(schemas));

// console: C-21, C-22
test('every kind of schema reads back what was written', () => withBrowser(async (browser) => {
  const { page, lines } = await signIn(browser, bed);
  for (const [at, { name, read, ok, isJson }] of (await drawn(page, SCHEMAS)).entries()) {
    assert.deepEqual(JSON.parse(read), SCHEMAS[at][2], name);
    assert.ok(ok, `${name} is valid`);
    assert.equal(isJson, Boolean(SCHEMAS[at][3]), `${name}: falls back to JSON`);
  }
  assert.deepEqual(lines, []);
}));

// console: C-22, C-24
test('an optional field left empty is left out, defaults are filled in, and limits are checked', () => withBrowser(async (browser) => {
  const { page } = await signIn(browser, bed);
  const [empty, filled, wrong] = await drawn(page, [
    ['empty', object({ a: { type: 'string' }, b: object({ c: { type: 'number' } }), d: { type: 'array', items: {} } })],
    ['defaults', object({ a: { type: 'string', default: 'x' }, b: object({ c: { type: 'number', default: 1 } }) })],
    ['limits', one({ type: 'integer', maximum: 3 }), { x: 4 }],
  ]);
  assert.equal(empty.read, '{}');
  assert.equal(filled.read, '{"a":"x","b":{"c":1}}');
  assert.equal(wrong.ok, false);
}));

// console: B-8
test('the inputs of at least 95 of 100 tools of real servers are drawn without falling back to JSON', () => withBrowser(async (browser) => {
  const { page } = await signIn(browser, bed);
  const tools = await page.evaluate(async () => {
    const base = document.querySelector('script[type=module]').src.replace(/main\.js$/, '');
    const { Client } = await import(`${base}mcp.js`);
    return (await new Client().list('tools/list', 'tools')).filter(({ name }) => !name.startsWith('hostile')).map(({ name, inputSchema }) => [name, inputSchema]);
  });
  const fallen = (await drawn(page, tools)).filter(({ isJson }) => isJson).map(({ name }) => name);
  assert.ok(tools.length > 50 && fallen.length <= tools.length * 0.05, `${fallen.length} of ${tools.length}: ${fallen.slice(0, 10)}`);
}));
