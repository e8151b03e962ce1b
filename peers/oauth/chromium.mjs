#!/usr/bin/env node
// A person with a real Chromium: signs in, consents, ends at the callback.
// `node peers/oauth/chromium.mjs [--deny] [--user NAME] [--screenshots DIR] URL`; fit to be `$BROWSER`.
// The last line on stdout is `STATUS URL` of the last page, without its query.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { isLoopback } from './lib/loopback-only.mjs';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const STEP_MS = 20_000;
const MOST_PAGES = 10;
// As root there is no sandbox; the others keep Chromium from asking for hosts of its maker.
const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];
const REFUSE = /cancel|abort|deny|refuse/i;

/** Fills in the first form of the page and sends it, or refuses; false when there is no form. */
async function answer(page, { user, deny, key }) {
  // A page that leads on by itself.
  if (await page.locator('meta[http-equiv=refresh]').count()) await page.waitForNavigation({ timeout: STEP_MS }).catch(() => {});
  const go = page.locator('a#go');
  if (await go.count()) {
    const left = page.waitForNavigation({ timeout: STEP_MS });
    await go.click({ timeout: STEP_MS });
    await left;
    return true;
  }
  const form = page.locator('form').first();
  if (!(await form.count())) return false;
  for (const field of await form.locator('input[type=text]').all()) {
    if (!(await field.inputValue())) await field.fill(user);
  }
  for (const field of await form.locator('input[type=password]').all()) await field.fill((await field.getAttribute('name')) === 'key' ? key : 'x');
  const refuse = page.locator('a, button').filter({ hasText: REFUSE }).first();
  const agree = page.locator('button[type=submit], input[type=submit], button.main').filter({ hasNotText: REFUSE }).first();
  const navigated = page.waitForNavigation({ timeout: STEP_MS });
  await (deny ? refuse : agree).click({ timeout: STEP_MS });
  await navigated;
  return true;
}

/** Waits until a page that leads elsewhere by itself has done so. */
async function arrive(page) {
  for (let count = 0; count < MOST_PAGES; count += 1) {
    await page.waitForLoadState('load', { timeout: STEP_MS });
    const onward = await page.locator('meta[http-equiv=refresh]').count().catch(() => 1);
    if (!onward) return;
    await page.waitForURL((url) => url.href !== page.url(), { timeout: 2_000 }).catch(() => {});
  }
}

/** Opens `address` in a new Chromium, and does `begin` there; gives the last page's status, URL and text, and the hosts that were asked in vain. */
export async function visit(address, { user = 'ada', deny = false, key, screenshots, script = true, begin = async () => {} } = {}) {
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'switchboard-chromium-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: CHROMIUM, args: FLAGS, headless: true, javaScriptEnabled: script,
  });
  const foreign = new Set();
  try {
    await context.route('**/*', (route) => {
      const url = new URL(route.request().url());
      if (isLoopback(url)) return route.continue();
      foreign.add(url.host);
      return route.abort();
    });
    const page = context.pages()[0] ?? (await context.newPage());
    let status = 0;
    page.on('response', (response) => {
      if (response.request().isNavigationRequest() && response.frame() === page.mainFrame()) status = response.status();
    });
    const shoot = async (count) => {
      if (screenshots) await page.screenshot({ path: path.join(screenshots, `page-${count}.png`) });
    };
    await page.goto(address, { timeout: STEP_MS });
    await begin(page);
    for (let count = 1; ; count += 1) {
      await arrive(page);
      await shoot(count);
      if (count > MOST_PAGES) throw new Error(`no end after ${MOST_PAGES} pages`);
      if (await answer(page, { user, deny, key })) continue;
      // A page that leads on by itself may have been about to.
      const seen = page.url();
      await page.waitForLoadState('networkidle', { timeout: STEP_MS });
      if (page.url() === seen) break;
    }
    return { status, url: new URL(page.url()), text: await page.locator('body').innerText(), foreign: [...foreign] };
  } finally {
    await context.close();
    fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      deny: { type: 'boolean', default: process.env.PERSON_DENIES === '1' },
      user: { type: 'string', default: process.env.PERSON ?? 'ada' },
      screenshots: { type: 'string' },
    },
  });
  if (values.screenshots) fs.mkdirSync(values.screenshots, { recursive: true });
  const { status, url } = await visit(positionals.at(-1), values);
  console.log(`${status} ${url.origin}${url.pathname}`);
  process.exitCode = status < 400 ? 0 : 1;
}
