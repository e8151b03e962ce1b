// Where the console is, and that it comes back: a port of its own, a restart under open pages, fifty tabs.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { start } from './bed.mjs';
import { signIn, withBrowser } from './browser.mjs';

const get = (page, path) => page.evaluate((to) => fetch(to).then(async (answer) => [answer.status, await answer.json().catch(() => null)]), path);

// console: C-31
test('a console at a port of its own is not at the port of the clients', async () => {
  const bed = await start({ section: { console: { port: 0, readOnly: true } } });
  try {
    await withBrowser(async (browser) => {
      const { origin } = new URL(bed.link());
      assert.notEqual(origin, bed.origin);
      const { page, lines } = await signIn(browser, { ...bed, origin });
      await page.getByText('read only').waitFor();
      const [, { rows }] = await get(page, '/console/api/snippets?client=curl');
      assert.ok(rows.every(({ text }) => text.includes(`${bed.origin}/mcp`) && !text.includes(origin)), 'clients go to their own port');
      await page.goto(`${origin}/console/#/tools?name=demo__echo`);
      await page.getByText('Try it').waitFor();
      assert.deepEqual(lines, []);
      const status = async (url, headers) => (await fetch(url, { headers, redirect: 'manual' })).status;
      const key = { authorization: `Bearer ${bed.key}` };
      assert.deepEqual([await status(`${bed.origin}/console/`, key), await status(`${bed.origin}/`, key), await status(`${origin}/mcp`, key), await status(`${origin}/status`, key), await status(`${origin}/`, { ...key, accept: 'text/html' })], [404, 404, 404, 404, 302]);
    });
  } finally {
    await bed.stop();
  }
});

let bed;
before(async () => { bed = await start(); });
after(() => bed.stop());

// console: B-10, C-32
test('a restart signs nobody out, and those who have signed out stay out', () => withBrowser(async (browser) => {
  const { page, context } = await signIn(browser, bed);
  const { page: other, context: theirs } = await signIn(browser, bed);
  const [left] = (await theirs.cookies()).filter(({ name }) => name.startsWith('switchboard-console'));
  await other.getByRole('button', { name: 'Sign out' }).click();
  await other.getByLabel('Key, or the link').waitFor();
  await page.goto(`${bed.origin}/console/#/tools?name=demo__echo`);
  const text = page.getByLabel('The same as JSON');
  await text.fill('{"message": "typed before"}');
  await bed.restart();
  const begun = Date.now();
  await page.locator('.banner').waitFor({ state: 'hidden' });
  // Not judged as a time: the machine may be busy.
  console.log(`back after ${Date.now() - begun} ms`);
  assert.equal(await page.getByRole('dialog').count(), 0, 'nobody is asked to sign in');
  assert.equal(await text.inputValue(), '{"message": "typed before"}');
  await page.getByRole('button', { name: 'Call with' }).click();
  await page.getByText('done').first().waitFor();
  const fresh = await browser.newContext();
  await fresh.addCookies([left]);
  assert.equal((await fresh.request.get(`${bed.origin}/console/api/me`)).status(), 401, 'a cookie that has ended');
  assert.equal((await context.request.get(`${bed.origin}/console/api/me`)).status(), 200);
}));

// console: B-10
test('fifty tabs look at once, each with its feed', () => withBrowser(async (browser) => {
  const { context, page } = await signIn(browser, bed);
  const [cookie] = await context.cookies();
  const streams = [];
  for (let tab = 0; tab < 50; tab += 1) {
    const cancel = new AbortController();
    const answer = await fetch(`${bed.origin}/console/feed?views=servers,calls,sessions,charts`, { headers: { cookie: `${cookie.name}=${cookie.value}` }, signal: cancel.signal });
    streams.push({ cancel, status: answer.status, reader: answer.body.getReader() });
  }
  assert.deepEqual(new Set(streams.map(({ status }) => status)), new Set([200]));
  const firsts = await Promise.all(streams.map(({ reader }) => reader.read()));
  assert.ok(firsts.every(({ value }) => value?.length), 'each is told something');
  await page.goto(`${bed.origin}/console/#/servers`);
  await page.getByRole('link', { name: 'demo', exact: true }).waitFor();
  streams.forEach(({ cancel }) => cancel.abort());
}));

// console: B-10
test('a server with 100,000 tools is listed, searched and called', async () => {
  const many = { command: process.execPath, args: [fileURLToPath(new URL('changing.mjs', import.meta.url)), '100000'] };
  const own = await start({ servers: { many } });
  try {
    await withBrowser(async (browser) => {
      const { page, lines } = await signIn(browser, own);
      await page.goto(`${own.origin}/console/#/tools?server=many`);
      await page.getByText('the first 20,000 tools, the first 100 shown').waitFor();
      await page.getByRole('searchbox', { name: 'Search' }).fill('tool 19999');
      await page.getByRole('link', { name: 'tool_19999' }).click();
      await page.getByRole('button', { name: 'Call with' }).click();
      await page.getByText('called tool_19999').first().waitFor();
      await page.goto(`${own.origin}/console/#/safety`);
      await page.getByRole('heading', { name: 'Safety of tools' }).waitFor();
      assert.deepEqual(lines, []);
    });
  } finally {
    await own.stop();
  }
});
