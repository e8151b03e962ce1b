// Every view: drawn, silent, without violations of accessibility rules, and no wider than the screen.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { start } from './bed.mjs';
import { follow, signIn, visit, withBrowser } from './browser.mjs';
import { offered } from './views.mjs';

const AXE = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const RULES = ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice'];
const NARROW = { width: 320, height: 720 };
const WIDE = { width: 1280, height: 860 };
/** 1280 px at 200 %. */
const ZOOMED = { width: 640, height: 430 };
let bed;

before(async () => { bed = await start(); });
after(() => bed.stop());

for (const [colorScheme, viewport] of [['light', NARROW], ['dark', NARROW], ['light', WIDE], ['dark', WIDE], ['light', ZOOMED]]) {
  // console: B-6, B-11, C-18, C-20
  test(`every view is silent and accessible, ${colorScheme}, ${viewport.width} px`, () => withBrowser(async (browser) => {
    // Under our CSP axe must not run: its context does without.
    const { page, lines } = await signIn(browser, bed, { colorScheme, bypassCSP: true, viewport });
    const found = [];
    await page.evaluate(AXE);
    for (const [name, { at, says, then, after: undo }] of await offered(page)) {
      await follow(page, at);
      await page.locator('main').getByText(says).first().waitFor({ state: 'attached' });
      await then?.(page);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if (over > 0) found.push(`${name} is ${over} px wider than the screen`);
      const { violations } = await page.evaluate((values) => window.axe.run(document, { resultTypes: ['violations'], runOnly: { type: 'tag', values } }), RULES);
      found.push(...violations.map(({ id, nodes }) => `${name}: ${id}: ${nodes[0].html.slice(0, 200)}`));
      await undo?.(page);
    }
    assert.deepEqual([...found, ...lines], []);
  }));
}

// console: B-6, C-20
test('a screen reader hears the navigation, the title, what needs somebody, and then the figures', () => withBrowser(async (browser) => {
  const { page } = await signIn(browser, bed);
  const tree = await page.locator('body').ariaSnapshot();
  const order = ['link "Skip to the content"', 'navigation "Views"', '- main', 'heading "Home" [level=1]', 'heading "Needs attention" [level=2]', 'link "broken is down"', 'calls in the last minute'].map((part) => tree.indexOf(part));
  assert.ok(!order.includes(-1) && order.every((at, index) => !index || at > order[index - 1]), `${order}\n${tree}`);
}));

// console: C-34, B-9
test('under the CSP of the page no foreign script runs, and nothing is said in the console', () => withBrowser(async (browser) => {
  const { page, lines } = await signIn(browser, bed);
  for (const [, { at, says, then, after: undo }] of await offered(page)) {
    await follow(page, at);
    await page.locator('main').getByText(says).first().waitFor({ state: 'attached' });
    await then?.(page);
    await undo?.(page);
  }
  assert.deepEqual(lines, []);
  const refused = await page.evaluate(() => {
    try {
      document.body.insertAdjacentHTML('beforeend', '<b>x</b>');
      return false;
    } catch {
      return true;
    }
  });
  assert.ok(refused, 'Trusted Types refuse markup');
}));

// console: C-18
test('the colours can be chosen, and stay so', () => withBrowser(async (browser) => {
  const { page } = await signIn(browser, bed, { colorScheme: 'light' });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.getByLabel('Colours').selectOption('dark');
  assert.notEqual(await ground(), light);
  await visit(page, '#/servers');
  assert.notEqual(await ground(), light);
}));

// console: C-2, B-7
test('a broken server and its reason are two steps from home', () => withBrowser(async (browser) => {
  const { page } = await signIn(browser, bed);
  await page.getByRole('link', { name: 'broken is down' }).click();
  await page.getByRole('heading', { name: 'broken', level: 1 }).waitFor();
  await page.getByText('command not found').first().waitFor();
}));
