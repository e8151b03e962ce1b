#!/usr/bin/env node
// Takes a picture of every view, light and dark, narrow, wide and huge: `node peers/console/screenshots.mjs [FOLDER] [REGEX]`.

import fs from 'node:fs';
import path from 'node:path';
import { start } from './bed.mjs';
import { signIn, visit, withBrowser } from './browser.mjs';
import { offered } from './views.mjs';

const folder = process.argv[2] ?? 'target/console';
const only = new RegExp(process.argv[3] ?? '');
const SIZES = { narrow: { width: 320, height: 720 }, wide: { width: 1280, height: 860 }, huge: { width: 3840, height: 2160 } };

fs.mkdirSync(folder, { recursive: true });
const bed = await start();
try {
  await withBrowser(async (browser) => {
    for (const colorScheme of ['light', 'dark']) {
      for (const [size, viewport] of Object.entries(SIZES)) {
        const { context, page } = await signIn(browser, bed, { colorScheme, viewport });
        for (const [name, { at, says, then, after: undo }] of await offered(page)) {
          if (!only.test(`${name}-${size}-${colorScheme}`)) continue;
          await visit(page, at);
          await page.locator('main').getByText(says).first().waitFor({ state: 'attached' });
          await then?.(page);
          await page.screenshot({ path: path.join(folder, `${name}-${size}-${colorScheme}.png`) });
          await undo?.(page);
        }
        await context.close();
      }
    }
  });
} finally {
  await bed.stop();
}
console.log(`pictures are in ${folder}`);
