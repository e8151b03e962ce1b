// What people change: the configuration, servers and keys; and a gateway that starts anew under an open page.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, before, test } from 'node:test';
import { start } from './bed.mjs';
import { follow, signIn, visit, withBrowser } from './browser.mjs';

let bed;
before(async () => { bed = await start(); });
after(() => bed.stop());

/** Runs `work` in a page that has signed in, if the gateway has `feature`. */
const inPage = (feature, work) => (context) => withBrowser(async (browser) => {
  const { page, lines } = await signIn(browser, bed);
  const { features } = await page.evaluate(() => fetch('/console/api/me').then((answer) => answer.json()));
  if (!features.includes(feature)) return context.skip(`this gateway has no ${feature}`);
  await work(page, lines);
});

// console: C-11, C-10, B-7
test('a server is added from the JSON of any client, after the exact command was shown', inPage('config', async (page, lines) => {
  await visit(page, '#/add');
  await page.getByLabel('JSON for any client').fill(JSON.stringify({ mcpServers: { added: { command: process.execPath, args: ['--version'] } } }));
  await page.getByRole('button', { name: 'Look at the change' }).last().click();
  const box = page.getByRole('dialog');
  await box.getByText('"added"').first().waitFor();
  await box.getByRole('button', { name: 'Apply' }).click();
  await page.locator('h1').filter({ hasText: /added|cannot be shown/ }).waitFor();
  await visit(page, '#/config');
  assert.match(await page.getByLabel('Text of the file').inputValue(), /"added"/);
  assert.deepEqual(lines.filter((line) => !line.includes('404')), []);
}));

// console: C-11
test('servers are found in the texts of other clients, and put into a file whose comments stay', () => withBrowser(async (browser) => {
  const { page } = await signIn(browser, bed);
  const entry = '{"command": "npx", "args": ["-y", "x"]}';
  const texts = [
    `{"mcpServers": {"a": ${entry}}}`, `{"servers": {"a": ${entry}}}`, `{"mcp": {"servers": {"a": ${entry}}}}`, `{"mcp": {"a": ${entry}}}`, `{"context_servers": {"a": ${entry}}}`,
    `{"a": ${entry}}`, `"a": ${entry},`, `{\n  // for the editor\n  "mcpServers": {\n    "a": ${entry},\n  },\n}`,
  ];
  const files = ['{}', '{"mcpServers": {}}', '{\n  // mine\n  "mcpServers": {\n    "b": {"url": "https://e.com/mcp"}\n  }\n}\n'];
  const found = await page.evaluate(async ([texts, files]) => {
    const base = document.querySelector('script[type=module]').src.replace(/main\.js$/, '');
    const { insert, pasted, split } = await import(`${base}view-add.js`);
    const checked = [];
    for (const file of files) {
      const text = insert(file, pasted(texts[0]));
      const answer = await fetch('/console/api/config/check', { method: 'POST', headers: { 'X-Switchboard': 'console', 'Content-Type': 'application/json' }, body: JSON.stringify({ text }) });
      checked.push({ text, errors: (await answer.json()).problems?.filter(({ level }) => level === 'error') });
    }
    return { pasted: texts.map((text) => JSON.stringify(pasted(text))), checked, split: split(`run "two words" 'it is' --x="a b" c\\ d`) };
  }, [texts, files]);
  assert.deepEqual(new Set(found.pasted), new Set(['{"a":{"command":"npx","args":["-y","x"]}}']));
  assert.deepEqual(found.checked.map(({ errors }) => errors), files.map(() => []));
  assert.match(found.checked[2].text, /\/\/ mine/);
  assert.deepEqual(found.split, ['run', 'two words', 'it is', '--x=a b', 'c d']);
}));

const answer = (body) => (route) => route.fulfill({ contentType: 'application/json', body: JSON.stringify(body) });

// console: C-11
test('a server of another client is added like any other: its command is seen first', inPage('found', async (page, lines) => {
  await page.route('**/api/found', answer({ rows: [{ name: 'my files', source: 'Claude Desktop', entry: { command: 'npx', args: ['server-files'] } }] }));
  await visit(page, '#/add');
  await page.getByText('npx server-files').waitFor();
  await page.getByRole('button', { name: 'Add my files' }).click();
  const box = page.getByRole('dialog');
  await box.getByText('npx server-files').waitFor();
  assert.match(await box.locator('ins').first().textContent(), /"my files": \{"command":"npx","args":\["server-files"\]\}/);
  await box.getByRole('button', { name: 'Cancel' }).click();
  assert.deepEqual(lines, []);
}));

// console: C-11
test('a server at a URL is added with its headers, and a line that is none is said', inPage('config', async (page) => {
  await visit(page, '#/add');
  const form = page.locator('form').first();
  await form.getByLabel('Name', { exact: true }).fill('remote');
  await form.getByLabel('Command or URL').fill('https://mcp.example/mcp');
  await form.getByLabel('Headers, for a URL').fill('no header');
  await form.getByRole('button', { name: 'Look at the change' }).click();
  await form.getByText('no header is no header').waitFor();
  await form.getByLabel('Headers, for a URL').fill('Authorization: Bearer ${HOME}\n\nX-Team: a: b');
  await form.getByRole('button', { name: 'Look at the change' }).click();
  const box = page.getByRole('dialog');
  await box.locator('ins').first().waitFor();
  assert.match(await box.locator('ins').first().textContent(), /"headers":\{"Authorization":"Bearer \$\{HOME\}","X-Team":"a: b"\}/);
}));

// console: C-10
test('changes of access are shown as the gateway tells them, and none are denied that it does not tell', inPage('config', async (page) => {
  await page.route('**/config/check', answer({ problems: [], changes: [] }));
  await visit(page, '#/config');
  const text = page.getByLabel('Text of the file');
  await text.fill(`${await text.inputValue()}\n`);
  await page.getByText('No change of a server is known').waitFor();
  assert.equal(await page.getByText(/no access changes/i).count(), 0);
  await page.route('**/config/check', answer({ problems: [], changes: [{ kind: 'added', server: 'a', text: 'adds a' }, { kind: 'removed', server: 'b', text: 'removes b' }, { kind: 'access', text: 'bob has other keys' }] }));
  await page.getByRole('button', { name: 'Apply …' }).click();
  const rows = page.getByRole('dialog').locator('li');
  await rows.first().waitFor();
  assert.deepEqual(await rows.evaluateAll((all) => all.map((row) => [row.querySelector('.chip').className, row.querySelector('.chip').textContent, row.querySelector('.any').textContent])), [['chip', 'added', 'adds a'], ['chip bad', 'removed', 'removes b'], ['chip warn', 'access', 'bob has other keys']]);
}));

// console: C-10, B-10
test('problems are said while typing, and a file that changed meanwhile is not overwritten', inPage('config', async (page) => {
  await visit(page, '#/config');
  const text = page.getByLabel('Text of the file');
  const before = await text.inputValue();
  await text.fill(before.replace('{', '{ oops'));
  await page.getByRole('button', { name: /^line \d+/ }).first().waitFor();
  const mine = before.replace('{', '{\n  // my own comment');
  await text.fill(mine);
  await page.getByText('No problems').or(page.getByText('warning')).first().waitFor();
  // An editor changes the file; the digest that the page knows is old.
  if (bed.file) fs.writeFileSync(bed.file, fs.readFileSync(bed.file, 'utf8').replace(/\n}\s*$/, '\n}\n\n'));
  else await page.route('**/config/apply', (route) => route.fulfill({ status: 412, contentType: 'application/json', body: '{"error":{"code":"changed","message":"the file has changed"}}' }));
  await page.getByRole('button', { name: 'Apply …' }).click();
  const yes = page.getByRole('dialog').getByRole('button', { name: 'Apply' });
  const conflict = page.getByText('The file has changed meanwhile');
  await yes.or(conflict).first().waitFor();
  if (await yes.count()) await yes.click();
  await conflict.waitFor();
  assert.equal(await text.inputValue(), mine, 'nothing that was typed is lost');
}));

// console: C-12, B-7
test('a key for two servers is made, shown once, and revoked', inPage('keys', async (page, lines) => {
  await visit(page, '#/keys');
  await page.getByLabel('Name').fill('carol');
  await page.getByLabel('demo', { exact: true }).check();
  await page.getByLabel('old', { exact: true }).check();
  await page.getByRole('button', { name: 'Make the key' }).click();
  await page.getByText('Copy it now').waitFor();
  await visit(page, '#/keys');
  assert.equal(await page.getByText('Copy it now').count(), 0);
  await page.getByRole('button', { name: 'Revoke carol' }).click();
  await page.getByRole('button', { name: 'Revoke it' }).click();
  await page.getByRole('status').getByText('carol').waitFor();
  assert.deepEqual(lines, []);
}));

// console: C-2
test('a server is stopped, and that is undone', inPage('actions', async (page) => {
  await visit(page, '#/servers/old');
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await page.getByRole('button', { name: 'Stop it' }).click();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByRole('status').filter({ hasText: 'start' }).first().waitFor();
}));

// console: C-9
test('an open call is seen and cancelled', inPage('cancel', async (page, lines) => {
  await page.evaluate(async () => {
    const base = document.querySelector('script[type=module]').src.replace(/main\.js$/, '');
    const { Client } = await import(`${base}mcp.js`);
    new Client().request('tools/call', { name: 'demo__slow_compute', arguments: { seconds: 60 } }).catch((error) => { window.ended = error.message; });
  });
  await follow(page, '#/sessions');
  await page.getByRole('button', { name: 'Cancel demo__slow_compute' }).click();
  await page.waitForFunction(() => window.ended);
  await page.getByText('No call is open').waitFor();
  assert.deepEqual(lines, []);
}));

// console: C-7
test('requests and answers are kept while somebody switched that on, and everybody is told', inPage('capture', async (page, lines) => {
  const echo = (message) => page.evaluate(async (text) => {
    const base = document.querySelector('script[type=module]').src.replace(/main\.js$/, '');
    const { Client } = await import(`${base}mcp.js`);
    await new Client().request('tools/call', { name: 'demo__echo', arguments: { message: text } });
  }, message);
  const rows = (least) => page.waitForFunction((most) => document.querySelectorAll('main tbody tr').length >= most, least);
  await visit(page, '#/calls?name=echo');
  const had = await page.locator('main tbody tr').count();
  await echo('said before');
  await rows(had + 1);
  await page.getByText('Keep requests and answers for a while').click();
  await page.locator('details').getByLabel('Server').selectOption('demo');
  await page.getByRole('button', { name: 'Keep them for 15 minutes' }).click();
  const banner = page.locator('.banner');
  await banner.getByText('demo').waitFor();
  await echo('said meanwhile');
  await rows(had + 2);
  await page.locator('main').getByRole('link', { name: 'echo' }).first().click();
  await page.getByRole('heading', { name: 'Request', exact: true }).waitFor();
  await page.getByText('said meanwhile').first().waitFor();
  await page.goBack();
  await page.locator('main').getByRole('link', { name: 'echo' }).nth(1).click();
  await page.getByText('Where the time went').waitFor();
  assert.equal(await page.getByText('said before').count(), 0);
  await page.goBack();
  await page.getByText('Keep requests and answers for a while').click();
  await page.locator('details').getByRole('button', { name: 'Stop' }).click();
  await banner.waitFor({ state: 'hidden' });
  assert.deepEqual(lines, []);
}));

// console: C-2
test('doctor visits a server, and says what it found', inPage('doctor', async (page, lines) => {
  await visit(page, '#/servers/demo');
  await page.getByRole('button', { name: 'Run doctor' }).click();
  await page.getByText(/Nothing is wrong with it|It works, with warnings/).waitFor();
  assert.deepEqual(lines, []);
}));

// console: C-32
test('the link that serve prints signs in, and is gone from the address', (context) => withBrowser(async (browser) => {
  if (!bed.link()) return context.skip('no link is known');
  const page = await browser.newPage();
  await page.goto(bed.link());
  await page.getByRole('heading', { name: 'Home', level: 1 }).waitFor();
  assert.ok(!page.url().includes('link='), page.url());
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Switchboard', level: 1 }).waitFor();
}));

// console: C-32, B-10
test('a sign-in that is over is asked for over the page, and nothing that was typed is lost', () => withBrowser(async (browser) => {
  const { page, context } = await signIn(browser, bed);
  await visit(page, '#/tools?name=demo__echo');
  await page.getByLabel('message', { exact: true }).fill('still here');
  await context.clearCookies();
  await page.getByRole('button', { name: 'Call with the values of the form' }).click();
  const again = page.getByRole('dialog');
  await again.getByLabel('Key, or the link').fill(bed.key);
  await again.getByRole('button', { name: 'Sign in' }).click();
  await again.waitFor({ state: 'detached' });
  assert.equal(await page.getByLabel('message', { exact: true }).inputValue(), 'still here');
}));

// console: C-32
test('a wrong key is refused with what to do next', () => withBrowser(async (browser) => {
  const page = await browser.newPage();
  await page.goto(`${bed.origin}/console/`);
  await page.getByLabel('Key, or the link').fill('wrong-key-wrong-key-wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').first().waitFor();
  assert.equal(await page.locator('nav').count(), 0);
}));

// console: B-10
test('after the gateway started anew the page comes back, and nothing that was typed is lost', { skip: process.env.CONSOLE_ORIGIN ? 'the gateway is not ours' : false }, () => withBrowser(async (browser) => {
  const { page } = await signIn(browser, bed);
  await visit(page, '#/tools?name=demo__echo');
  await page.getByLabel('message', { exact: true }).fill('still here');
  await bed.restart();
  // The cookie may be over with the gateway that sealed it.
  const again = page.getByRole('dialog');
  const call = page.getByRole('button', { name: 'Call with the values of the form' });
  await call.click();
  await again.or(page.getByText('done')).first().waitFor();
  if (await again.count()) {
    await again.getByLabel('Key, or the link').fill(bed.key);
    await again.getByRole('button', { name: 'Sign in' }).click();
    await again.waitFor({ state: 'detached' });
    await call.click();
  }
  await page.getByText('done').waitFor();
  assert.equal(await page.getByLabel('message', { exact: true }).inputValue(), 'still here');
}));
