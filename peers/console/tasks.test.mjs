// What people do here: find a tool, fill in its form, answer questions, cancel, look at calls, by mouse and by keyboard.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start } from './bed.mjs';
import { signIn, visit, withBrowser } from './browser.mjs';

let bed;
before(async () => { bed = await start(); });
after(() => bed.stop());

/** Runs `work` in a page that has signed in, and that must say nothing in its console. */
const inPage = (work, options) => () => withBrowser(async (browser) => {
  const { page, lines } = await signIn(browser, bed, options);
  await work(page);
  assert.deepEqual(lines, []);
});
const open = (page, name) => visit(page, `#/tools?name=${encodeURIComponent(name)}`);
const call = (page) => page.getByRole('button', { name: 'Call with the values of the form' }).click();
const result = (page) => page.locator('section', { hasText: 'Try it' });

// console: C-5, C-22
test('a tool is called with the values of its form, and form and JSON stay in step', inPage(async (page) => {
  await open(page, 'demo__add');
  await page.getByLabel('a', { exact: true }).fill('2');
  await page.getByLabel('b', { exact: true }).fill('40.5');
  assert.deepEqual(JSON.parse(await page.getByLabel('The same as JSON').inputValue()), { a: 2, b: 40.5 });
  await page.getByLabel('The same as JSON').fill('{"a": 1, "b": 2}');
  assert.equal(await page.getByLabel('a', { exact: true }).inputValue(), '1');
  await call(page);
  await result(page).getByText('done').waitFor();
  await result(page).getByText('sum').first().waitFor();
}));

// console: C-23
test('what is required and missing is said at its field and on top', inPage(async (page) => {
  await open(page, 'demo__echo');
  await call(page);
  await page.getByRole('alert').getByText('fill out this field').waitFor();
  assert.equal(await page.getByLabel('message', { exact: true }).getAttribute('aria-invalid'), 'true');
  await page.getByRole('alert').getByRole('button', { name: 'message' }).click();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'INPUT');
}));

for (const era of ['modern', 'legacy']) {
  const choose = async (page) => {
    await page.getByText('More: era and _meta').click();
    await page.getByLabel('Era of the protocol').selectOption(era);
  };

  // console: C-5, C-24
  test(`a question of the server is answered inline, ${era}`, inPage(async (page) => {
    await open(page, 'demo__test_elicitation');
    await choose(page);
    await page.getByLabel('message', { exact: true }).fill('How are you?');
    await call(page);
    const asked = page.getByRole('region', { name: 'Question of the server' });
    await asked.getByText('How are you?').waitFor();
    await asked.getByRole('textbox').first().fill('Very well');
    await asked.getByRole('button', { name: 'Answer' }).click();
    await result(page).getByText('Very well').first().waitFor();
  }));

  // console: C-5
  test(`progress is shown, and the result comes after it, ${era}`, inPage(async (page) => {
    await open(page, 'demo__test_tool_with_progress');
    await choose(page);
    await call(page);
    await result(page).getByText('done').waitFor();
  }));

  // console: C-5
  test(`a call is cancelled, ${era}`, inPage(async (page) => {
    await open(page, 'demo__slow_compute');
    await choose(page);
    await page.getByLabel('The same as JSON').fill('{"seconds": 30}');
    await call(page);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText('you cancelled the call').waitFor();
  }));
}

// console: C-5
test('a legacy session ends after its cancel was heard, also on a slow line', inPage(async (page) => {
  await page.route('**/console/mcp', async (route) => {
    if (route.request().postData()?.includes('notifications/cancelled')) await new Promise((resolve) => setTimeout(resolve, 300));
    await route.continue();
  });
  await open(page, 'demo__slow_compute');
  await page.getByText('More: era and _meta').click();
  await page.getByLabel('Era of the protocol').selectOption('legacy');
  await page.getByLabel('The same as JSON').fill('{"seconds": 30}');
  const sent = page.waitForRequest((request) => request.postData()?.includes('tools/call') ?? false);
  await call(page);
  await sent;
  const cancelled = page.waitForResponse((response) => response.request().postData()?.includes('notifications/cancelled') ?? false);
  const ended = page.waitForResponse((response) => response.request().method() === 'DELETE');
  await page.getByRole('button', { name: 'Cancel' }).click();
  assert.equal((await cancelled).status(), 202);
  assert.equal((await ended).status(), 204);
}));

// console: C-5, C-35
test('a picture and a sound are shown after a click', inPage(async (page) => {
  await open(page, 'demo__test_image_content');
  await call(page);
  assert.equal(await page.locator('main img').count(), 0);
  await page.getByRole('button', { name: 'Show the picture' }).click();
  await page.locator('img[src^="blob:"]').waitFor();
  await open(page, 'demo__test_audio_content');
  await call(page);
  await page.getByRole('button', { name: 'Show the sound' }).click();
  await page.locator('audio').waitFor();
}));

// console: C-5, B-12
test('the same call can be copied as a command and as curl', inPage(async (page) => {
  await open(page, 'demo__echo');
  await page.getByLabel('message', { exact: true }).fill(`it's`);
  await page.getByRole('button', { name: 'Copy as command' }).click();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(copied, /^switchboard call http:\/\/127\.0\.0\.1:\d+\/mcp demo__echo --json '\{"message":"it'\\''s"\}'/);
  await page.getByRole('button', { name: 'Copy as curl' }).click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^curl http/);
}));

// console: C-4
test('one search finds a tool by words of its name or description', inPage(async (page) => {
  await visit(page, '#/tools');
  await page.getByText('demo__echo').first().waitFor();
  await page.getByLabel('Search').fill('adds numbers');
  await page.getByText('2 of', { exact: false }).waitFor();
  assert.match(page.url(), /q=adds\+numbers/);
}));

// console: C-4
test('prompts and resources are tried too', inPage(async (page) => {
  await visit(page, '#/tools?kind=prompts&name=demo__test_prompt_with_arguments');
  await page.locator('.root input').first().waitFor();
  for (const field of await page.locator('.root input').all()) await field.fill('value');
  await page.getByRole('button', { name: 'Get with' }).click();
  await result(page).getByText('done').waitFor();
  await visit(page, '#/tools?kind=resources');
  await page.locator('.picks a').first().click();
  await page.getByRole('button', { name: 'Read with' }).click();
  await result(page).getByText('done').waitFor();
}));

// console: C-6, C-8
test('calls appear as they happen, with the filter in the address, and one as a waterfall', inPage(async (page) => {
  await open(page, 'demo__echo');
  await page.getByLabel('message', { exact: true }).fill('seen');
  await call(page);
  await result(page).getByText('done').waitFor();
  await visit(page, '#/calls?name=echo');
  await page.getByRole('link', { name: 'echo' }).first().click();
  await page.getByText('Where the time went').waitFor();
  await page.getByRole('listitem').filter({ hasText: 'Server' }).first().waitFor();
  await page.goBack();
  await page.getByLabel('Outcome').selectOption('failed');
  assert.match(page.url(), /outcome=failed/);
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('Paused').waitFor();
}));

// console: C-19, B-6
test('a tool is found and called by keyboard alone', inPage(async (page) => {
  await page.waitForFunction(() => performance.getEntriesByName('keys').length);
  await page.keyboard.press('g');
  await page.keyboard.press('t');
  await page.getByRole('heading', { name: 'Tools', level: 1 }).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('demo echo');
  await page.getByText('1 of', { exact: false }).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'demo__echo' }).waitFor();
  await page.keyboard.press('Tab');
  while (!(await page.evaluate(() => document.activeElement?.matches('.root input')))) await page.keyboard.press('Tab');
  await page.keyboard.type('by keyboard');
  await page.keyboard.press('Control+Enter');
  await result(page).getByText('done').waitFor();
}));
