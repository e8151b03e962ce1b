// Hostile servers and hostile pages: nothing runs, nothing is read, nothing is framed, and the page stays alive.

import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { CANARY, start } from './bed.mjs';
import { signIn, visit, withBrowser } from './browser.mjs';

let bed;
before(async () => { bed = await start(); });
after(() => bed.stop());

const inPage = (work) => () => withBrowser(async (browser) => {
  const { page, lines } = await signIn(browser, bed);
  await work(page);
  assert.equal(await page.evaluate(() => window.pwned), undefined, 'nothing of the server ran');
  assert.deepEqual(lines, []);
});
const open = (page, name) => visit(page, `#/tools?name=${encodeURIComponent(name)}`);
const call = (page) => page.getByRole('button', { name: 'with the values of the form' }).click();

/** No element that a server could have made, and no link but http(s) and our own. */
async function inert(page) {
  const found = await page.evaluate(() => [
    ...[...document.querySelectorAll('main script, main iframe, main object, main embed, main img, main svg script, main [onerror], main [onmouseover]')].map((node) => node.outerHTML.slice(0, 100)),
    ...[...document.querySelectorAll('a[href]')].map((link) => link.getAttribute('href')).filter((href) => !/^(#|https?:)/.test(href)),
  ]);
  assert.deepEqual(found, []);
}

// console: C-35, C-16, B-9
test('markup in names, descriptions, fields and choices is text, and hidden characters are marks', inPage(async (page) => {
  for (const [at, says] of [['#/servers/hostile', 'What it is'], ['#/tools?name=hostile__markup', 'U+202E'], ['#/tools?kind=prompts&name=hostile__markup', 'U+202E'], ['#/tools?kind=resources&q=javascript', 'U+202E']]) {
    await visit(page, at);
    await page.getByText(says).first().waitFor({ state: 'attached' });
    await inert(page);
  }
}));

// console: C-35, B-9
test('contents that would run are shown as text, or not at all', inPage(async (page) => {
  await open(page, 'hostile__contents');
  await call(page);
  await page.getByText('done').waitFor();
  await inert(page);
  assert.equal(await page.getByRole('button', { name: 'Show the' }).count(), 0, 'SVG and HTML are not shown');
}));

// console: C-35
test('a page that is code is no link', inPage(async (page) => {
  await open(page, 'hostile__visit');
  await call(page);
  await page.getByText('asks you to visit a page').waitFor();
  await inert(page);
  await page.getByRole('button', { name: 'Decline' }).click();
  await page.getByText('decline').first().waitFor();
}));

/** Where a text belongs: an object that names attributes, and has no text of its own. */
const ODD = { class: 'owned', id: 'owned', onclick: 'window.pwned=1', href: 'javascript:window.pwned=1', toString: 1, valueOf: 1 };
const ODD_SCHEMA = { type: 'object', title: ODD, description: ODD, properties: { a: { type: 'string', title: ODD, description: ODD, pattern: ODD, format: ODD, default: ODD, examples: [ODD, ODD], minLength: ODD, 'x-mcp-header': ODD }, b: { enum: [ODD, 'b'], title: ODD }, c: { type: 'number', minimum: ODD, multipleOf: ODD, examples: [ODD] }, d: { type: 'array', items: { enum: ['x'] }, uniqueItems: ODD }, e: { type: ODD }, f: { const: ODD } }, required: [ODD] };
const ODD_ITEMS = [{ type: 'text', text: ODD }, { type: 'image', mimeType: ODD, data: ODD }, { type: 'resource_link', uri: ODD, name: ODD, title: ODD, description: ODD }, { type: 'resource', resource: { uri: ODD, mimeType: ODD, text: ODD } }, { type: ODD }, ODD];
const ODD_RESULT = { isError: true, content: ODD_ITEMS, messages: [{ role: ODD, content: ODD_ITEMS[0] }], contents: [{ uri: ODD, text: ODD }], structuredContent: ODD };
const ODD_THING = { title: ODD, description: ODD, mimeType: ODD, annotations: { title: ODD } };

/** What a server answers that has objects in every place where texts belong. */
function odd({ method, params }) {
  if (method === 'tools/list') return [{ result: { tools: [{ ...ODD_THING, name: 'odd', inputSchema: ODD_SCHEMA }, { ...ODD_THING, name: ODD }] } }];
  if (method === 'prompts/list') return [{ result: { prompts: [{ ...ODD_THING, name: 'odd', arguments: [{ ...ODD_THING, name: ODD }, { ...ODD_THING, name: 'a' }] }] } }];
  if (method === 'resources/list') return [{ result: { resources: [{ ...ODD_THING, uri: 'odd', name: ODD }] } }];
  if (method === 'resources/templates/list') return [{ result: { resourceTemplates: [{ ...ODD_THING, uriTemplate: ODD, name: ODD }] } }];
  if (method === 'tools/call' && !params.inputResponses) return [{ result: { resultType: 'input_required', inputRequests: { a: { method: 'elicitation/create', params: { mode: 'url', message: ODD, url: ODD } }, b: { method: 'elicitation/create', params: { message: ODD, requestedSchema: ODD_SCHEMA } }, c: { method: 'sampling/createMessage', params: { messages: [{ role: ODD, content: ODD_ITEMS[0] }] } } } } }];
  if (method === 'prompts/get') return [{ error: { code: ODD, message: ODD, data: ODD } }];
  return [{ method: 'notifications/progress', params: { progress: ODD, total: ODD, message: ODD } }, { method: 'notifications/message', params: { level: ODD, data: ODD } }, { result: ODD_RESULT }];
}

// console: C-35, B-9
test('objects in the place of texts become text, and no attribute', inPage(async (page) => {
  await page.route('**/console/mcp', (route) => {
    const asked = route.request().postDataJSON();
    const events = odd(asked).map((message) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...(message.method ? {} : { id: asked.id }), ...message })}\n\n`);
    return route.fulfill({ contentType: 'text/event-stream', body: events.join('') });
  });
  const free = async () => {
    await inert(page);
    assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll('#owned, .owned, [onclick], [toString]')].map((node) => node.outerHTML.slice(0, 200))), []);
  };
  await open(page, 'odd');
  await page.getByRole('heading', { name: 'Try it' }).waitFor();
  await free();
  await call(page);
  for (const [asks, answer] of [['asks you to visit', 'I agree'], ['The server asks', 'Decline'], ['you are the model', 'Answer']]) {
    await page.getByText(asks).waitFor();
    await free();
    await page.getByRole('button', { name: answer, exact: true }).click();
  }
  await page.getByText('The tool says that it failed.').waitFor();
  await free();
  await visit(page, '#/tools?kind=prompts&name=odd');
  await call(page);
  await page.getByRole('alert').waitFor();
  await free();
  await visit(page, '#/tools?kind=resources&name=odd');
  await call(page);
  await page.getByText('The tool says that it failed.').waitFor();
  await free();
}));

// console: C-24, B-9
test('schemas that refer to themselves, go deep or wide, and patterns without end leave the page alive', inPage(async (page) => {
  for (const name of ['self', 'deep', 'wide', 'pattern']) {
    await open(page, `hostile__${name}`);
    await page.getByRole('heading', { name: 'Try it' }).waitFor();
    const fields = await page.locator('.root .field').count();
    assert.ok(fields <= 600, `${name} draws ${fields} fields`);
  }
  await page.getByLabel('text', { exact: true }).fill(`${'a'.repeat(60)}!`);
  await call(page);
  await page.getByText('done').waitFor();
}));

// console: B-9, B-10
test('100,000 items and a name of a mebibyte leave the page alive', inPage(async (page) => {
  await open(page, 'hostile__many');
  await call(page);
  await page.getByText('99,800 more items').waitFor();
  await visit(page, '#/tools?server=hostile&q=long');
  await page.getByText('more characters').first().waitFor();
}));

// console: C-33, B-9
test('a page of another origin reads nothing, changes nothing and frames nothing', () => withBrowser(async (browser) => {
  const { context } = await signIn(browser, bed);
  const other = http.createServer((_, response) => response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>other</title>')).listen(0, '127.0.0.1');
  await new Promise((resolve) => other.once('listening', resolve));
  try {
    const page = await context.newPage();
    await page.goto(`http://127.0.0.1:${other.address().port}/`);
    const outcome = await page.evaluate(async (origin) => {
      const tries = { fetch: () => fetch(`${origin}/console/api/me`, { credentials: 'include' }).then((answer) => answer.text()), post: () => fetch(`${origin}/console/api/sign-out`, { method: 'POST', credentials: 'include', headers: { 'X-Switchboard': 'console' } }).then((answer) => answer.text()), mcp: () => fetch(`${origin}/console/mcp`, { method: 'POST', credentials: 'include', body: '{}' }).then((answer) => answer.text()) };
      const read = [];
      for (const [name, work] of Object.entries(tries)) await work().then(() => read.push(name), () => {});
      const frame = document.createElement('iframe');
      frame.src = `${origin}/console/`;
      document.body.append(frame);
      await new Promise((resolve) => { frame.onload = resolve; });
      return { read, framed: Boolean(frame.contentDocument?.querySelector('main')) };
    }, bed.origin);
    assert.deepEqual(outcome, { read: [], framed: false });
    const frames = page.frames().slice(1);
    for (const frame of frames) assert.equal(await frame.locator('main, form').count().catch(() => 0), 0);
  } finally {
    other.close();
  }
}));

const CHANGES = [
  ['POST', 'sign-out'], ['POST', 'servers/demo/restart'], ['POST', 'servers/demo/stop'], ['POST', 'config/check'], ['POST', 'config/apply'], ['POST', 'config/trial'],
  ['POST', 'config/versions/1/restore'], ['POST', 'keys/eve'], ['DELETE', 'keys/ada'], ['DELETE', 'sessions/x'], ['DELETE', 'calls/open/x'], ['POST', 'accounts/demo/connect'],
];

// console: C-33, B-9
test('changes without cookie, header or origin are refused, and a foreign Host too', () => withBrowser(async (browser) => {
  const { context } = await signIn(browser, bed);
  const cookie = (await context.cookies(`${bed.origin}/console/`)).map(({ name, value }) => `${name}=${value}`).join('; ');
  const ours = { Cookie: cookie, 'X-Switchboard': 'console', Origin: bed.origin, 'Sec-Fetch-Site': 'same-origin' };
  const status = (method, path, headers) => new Promise((resolve, reject) => http.request(`${bed.origin}/console/${path}`, { method, headers: { 'Content-Type': 'application/json', ...headers } }, (answer) => resolve(answer.resume().statusCode)).once('error', reject).end(method === 'POST' ? '{}' : ''));
  assert.equal(await status('GET', 'api/me', ours), 200);
  for (const [method, path] of CHANGES) {
    for (const [what, wrong] of Object.entries({ cookie: { Cookie: '' }, header: { 'X-Switchboard': '' }, origin: { Origin: 'http://evil.example', 'Sec-Fetch-Site': 'cross-site' }, Host: { Host: 'evil.example' } })) {
      const code = await status(method, `api/${path}`, { ...ours, ...wrong });
      assert.ok([401, 403].includes(code), `${method} ${path} with another ${what}: ${code}`);
    }
  }
  assert.equal(await status('GET', '', { Host: 'evil.example' }), 403);
}));

// console: C-36, C-38, B-9
test('no answer and no page has a secret of the configuration', { skip: process.env.CONSOLE_ORIGIN ? 'the gateway is not ours' : false }, () => withBrowser(async (browser) => {
  const { page } = await signIn(browser, bed);
  const bodies = [];
  page.on('response', (response) => bodies.push(response.text().catch(() => '')));
  for (const at of ['#/', '#/servers/demo', '#/servers/hostile', '#/calls', '#/sessions', '#/config', '#/keys', '#/connect']) await visit(page, at);
  const heard = await page.evaluate(() => new Promise((resolve) => {
    const source = new EventSource('/console/feed?views=servers,calls,sessions,charts,config');
    const events = [];
    for (const name of ['servers', 'calls', 'sessions', 'charts', 'config', 'notice']) source.addEventListener(name, ({ data }) => events.push(data));
    source.addEventListener('servers', () => {
      source.close();
      resolve(events.join('\n'));
    });
  }));
  const all = [...(await Promise.all(bodies)), await page.content(), heard, ...bed.log].join('\n');
  assert.ok(!all.includes(CANARY) && !all.includes(bed.key), 'a secret is in an answer, a page or the log');
}));

// console: C-38, B-9
test('a narrow key is shown nothing of what is not granted to it', { skip: process.env.CONSOLE_ORIGIN ? 'the gateway is not ours' : false }, () => withBrowser(async (browser) => {
  const { page } = await signIn(browser, { ...bed, key: bed.narrow });
  for (const at of ['#/', '#/servers', '#/tools', '#/calls', '#/sessions']) {
    await visit(page, at);
    const text = await page.locator('main').innerText();
    assert.ok(!/\bdemo\b|demo__|hostile|broken/.test(text), `${at} names what is not granted`);
  }
}));
