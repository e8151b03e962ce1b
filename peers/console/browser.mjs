// A real Chromium for the console: every line in its console and every error of a page is a failure.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
// As root there is no sandbox; the others keep Chromium from asking for hosts of its maker.
const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];
/** A folder with another page than the gateway's own: edits are tried without building it. */
const PAGE = process.env.CONSOLE_WEB;
export const STEP_MS = 30_000;
/** The title of a view. The page that asks who you are has a title, too, but not in the frame. */
export const VIEW = '#main h1';

/** Whether there is a Chromium to test with. */
export const isThere = () => fs.existsSync(CHROMIUM);

let running;

/** Longer than any test takes on a slow machine: one that hangs fails. */
const TEST_MS = 240_000;

/** Runs `work` with the browser of this process, and closes what it opened. */
export async function withBrowser(work) {
  const browser = await (running ??= chromium.launch({ executablePath: CHROMIUM, args: FLAGS, headless: true, timeout: 60_000 }));
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it is not over after ${TEST_MS / 1000} s`)), TEST_MS);
  });
  try {
    return await Promise.race([work(browser), late]);
  } catch (error) {
    // What a person would have seen.
    for (const page of browser.contexts().flatMap((context) => context.pages())) {
      const seen = await page.locator('body').innerText({ timeout: 2000 }).catch(() => 'nothing');
      console.error(`${page.url()} showed:\n${seen.slice(0, 3000)}`);
    }
    throw error;
  } finally {
    await Promise.race([Promise.all(browser.contexts().map((context) => context.close())), late]).catch(() => {});
    clearTimeout(timer);
  }
}

/** Ends the browser. */
export async function endBrowser() {
  const browser = await running;
  running = undefined;
  await browser?.close();
}

/** A page that has signed in, and the lines that its console should not have. */
export async function signIn(browser, { origin, key }, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  context.setDefaultTimeout(STEP_MS);
  if (PAGE) await context.route('**/console/web/**', (route) => route.fulfill({ path: path.join(PAGE, path.basename(new URL(route.request().url()).pathname)) }));
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin });
  const page = await context.newPage();
  const lines = [];
  page.on('console', (message) => lines.push(`${message.type()}: ${message.text()} (${message.location().url})`));
  page.on('pageerror', (error) => lines.push(`error: ${error.message}`));
  await page.goto(`${origin}/console/`);
  await page.getByLabel('Key, or the link').fill(key);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.locator(VIEW).waitFor();
  return { context, page, lines };
}

/** Opens a view by its address, as somebody does who was sent it, and waits until it is drawn. */
export async function visit(page, address) {
  const origin = await page.evaluate(() => window.origin);
  await page.goto('about:blank');
  await page.goto(`${origin}/console/${address}`);
  await page.locator(VIEW).waitFor();
}

/** Goes from one view to another without loading the page anew; gives how long that took, in milliseconds. */
export async function follow(page, address) {
  await page.evaluate((hash) => {
    const view = (from) => /^#?\/?([^?]*)/.exec(from)[1];
    window.before = view(hash) === view(location.hash) ? null : document.querySelector('main h1');
    window.begun = performance.now();
    location.hash = hash;
  }, address);
  return page.waitForFunction(() => document.querySelector('main h1') !== window.before && performance.now() - window.begun).then((took) => took.jsonValue());
}

/** A new folder that is gone at the end of the process. */
export function scratch() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'switchboard-console-'));
  process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}
