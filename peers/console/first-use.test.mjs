// What a person does who has never seen the console: six tasks from the home view, by what the page shows, with their steps counted.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start } from './bed.mjs';
import { signIn, withBrowser } from './browser.mjs';

let bed;
before(async () => { bed = await start(); });
after(() => bed.stop());

/** Runs a task from the home view; every click and every field is a step, and there may be `most`. */
const task = (name, most, work, needs) => test(name, (context) => withBrowser(async (browser) => {
  const { page, lines } = await signIn(browser, bed);
  const { features } = await page.evaluate(() => fetch('/console/api/me').then((answer) => answer.json()));
  if (needs && !features.includes(needs)) return context.skip(`this gateway has no ${needs}`);
  let steps = 0;
  const step = (action) => async (locator, ...rest) => {
    steps += 1;
    await locator[action](...rest);
  };
  await work(page, { click: step('click'), fill: step('fill'), check: step('check') });
  context.diagnostic(`${steps} steps`);
  assert.ok(steps <= most, `${steps} steps, ${most} are enough`);
  assert.deepEqual(lines, []);
}));
const views = (page) => page.getByRole('navigation', { name: 'Views' });

// console: B-7
task('find a broken server and its reason', 0, async (page) => {
  await page.getByRole('link', { name: 'broken is down' }).waitFor();
  await page.getByText('command not found').first().waitFor();
});

// console: B-7
task('find a tool and call it', 5, async (page, { click, fill }) => {
  await click(views(page).getByRole('link', { name: 'Tools' }));
  await fill(page.getByLabel('Search'), 'adds two numbers');
  await click(page.getByRole('link', { name: 'demo__add' }));
  await fill(page.getByLabel('The same as JSON'), '{"a": 1, "b": 2}');
  await click(page.getByRole('button', { name: 'Call with the values of the form' }));
  await page.getByText('done').first().waitFor();
});

// console: B-7, C-11
task('add a server from a pasted JSON, try it, and see its tools', 6, async (page, { click, fill }) => {
  await click(views(page).getByRole('link', { name: 'Add a server' }));
  await fill(page.getByLabel('JSON for any client'), JSON.stringify({ mcpServers: { third: bed.demo } }));
  await click(page.getByRole('button', { name: 'Look at the change' }).last());
  const box = page.getByRole('dialog');
  await click(box.getByRole('button', { name: 'Try it first' }));
  await box.getByText('It works').waitFor();
  await click(box.getByRole('button', { name: 'Apply' }));
  await page.getByRole('heading', { name: 'third', level: 1 }).waitFor();
  await click(page.getByRole('link', { name: 'Its tools', exact: true }));
  await page.getByText('echo', { exact: true }).first().waitFor();
}, 'trial');

// console: B-7, C-14
task('connect Claude Code', 2, async (page, { click }) => {
  await click(views(page).getByRole('link', { name: 'Connect a client' }));
  await click(page.getByRole('button', { name: 'Copy' }).first());
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^claude mcp add --transport http switchboard http/);
}, 'snippets');

// console: B-7
task('see why the last call failed', 2, async (page, { click }) => {
  const failed = await page.evaluate(async () => {
    const base = document.querySelector('script[type=module]').src.replace(/main\.js$/, '');
    const { Client } = await import(`${base}mcp.js`);
    return (await new Client().request('tools/call', { name: 'demo__test_error_handling', arguments: {} })).isError;
  });
  assert.ok(failed);
  await click(page.getByRole('link', { name: 'of them failed' }));
  await click(page.getByRole('link', { name: 'test_error_handling' }).first());
  await page.getByText('The tool says that it failed').waitFor();
});

// console: B-7, C-12
task('make a key for a colleague with two servers', 6, async (page, { click, fill, check }) => {
  await click(views(page).getByRole('link', { name: 'Keys' }));
  await fill(page.getByLabel('Name'), 'carol');
  await check(page.getByLabel('demo', { exact: true }));
  await check(page.getByLabel('old', { exact: true }));
  await click(page.getByRole('button', { name: 'Make the key' }));
  await click(page.getByRole('button', { name: 'Copy' }));
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /\S{20}/);
}, 'keys');
