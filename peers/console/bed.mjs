// A gateway with real servers on a free port, or one that runs already: CONSOLE_ORIGIN and CONSOLE_KEY.

import { spawn, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import { fileURLToPath } from 'node:url';
import { endBrowser, scratch } from './browser.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url));
export const WEB = path.join(HERE, '../../crates/gateway/src/console/web');
const SWITCHBOARD = process.env.SWITCHBOARD ?? path.join(HERE, '../../target/debug/switchboard');
const START_MS = 60_000;

/** Secrets that must be in no answer, page, event and log. */
export const CANARY = `canary-${randomBytes(12).toString('hex')}`;

/** Starts a gateway; `stop` ends it, and the browser. `more` has more servers, and more members of the section `switchboard`. */
export async function start(more = {}) {
  if (process.env.CONSOLE_ORIGIN) return { origin: process.env.CONSOLE_ORIGIN, key: process.env.CONSOLE_KEY, demo: { command: SWITCHBOARD, args: ['demo'] }, link: () => process.env.CONSOLE_LINK, stop: endBrowser };
  const folder = scratch();
  const file = path.join(folder, 'switchboard.json');
  const [key, narrow] = [randomBytes(24).toString('hex'), randomBytes(24).toString('hex')];
  const demo = { command: SWITCHBOARD, args: ['demo'] };
  const hash = (text) => `sha256:${createHash('sha256').update(text).digest('hex')}`;
  fs.writeFileSync(file, JSON.stringify({
    mcpServers: {
      demo: { ...demo, env: { DEMO_TOKEN: CANARY } },
      old: { command: SWITCHBOARD, args: ['demo', '--era', 'legacy'] },
      hostile: { command: process.execPath, args: [path.join(HERE, 'hostile.mjs')] },
      broken: { command: path.join(folder, 'no-such-program') },
      ...more.servers,
    },
    switchboard: { keys: { ada: { hash: hash(key) }, bob: { hash: hash(narrow), servers: ['old'] } }, ...more.section },
  }, null, 2));
  const log = [];
  const env = { ...process.env, HOME: folder, XDG_STATE_HOME: folder };
  const run = async (port) => {
    const child = spawn(SWITCHBOARD, ['serve', '--config', file, '--port', port], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'], env });
    const ended = new Promise((resolve) => child.once('exit', resolve));
    process.once('exit', () => child.kill('SIGKILL'));
    // The link that signs in once is for the one who started the gateway: it is in no log.
    const output = [];
    readline.createInterface({ input: child.stderr }).on('line', (line) => (line.includes('#link=') ? output : log).push(line));
    const url = await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('the gateway did not start')), START_MS);
      readline.createInterface({ input: child.stdout }).on('line', (line) => {
        clearTimeout(timer);
        output.push(line);
        resolve(line);
      });
      child.once('error', (error) => reject(new Error(`${error.message}: build it first (cargo build -p switchboard), or name it in SWITCHBOARD`)));
      child.once('exit', (code) => reject(new Error(`the gateway ended with ${code}:\n${log.join('\n')}`)));
    });
    const { origin } = new URL(url);
    // Its servers are ready when their tools are listed.
    for (let tries = 0; tries < START_MS / 100; tries += 1) {
      const status = await fetch(`${origin}/status`, { headers: { Authorization: `Bearer ${key}` } }).then((answer) => answer.json());
      if (['demo', 'old', 'hostile'].every((name) => status.servers[name]?.state === 'ready')) break;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return { origin, command: (...args) => spawnSync(SWITCHBOARD, args, { cwd: folder, env, encoding: 'utf8' }), link: () => output.map((line) => /\S+#link=\S+/.exec(line)?.[0]).findLast(Boolean), stop: async () => {
      child.kill('SIGTERM');
      await ended;
    } };
  };
  let now = await run('0');
  return { origin: now.origin, key, narrow, log, file, folder, demo, command: now.command, link: () => now.link(), stop: () => Promise.all([now.stop(), endBrowser()]), restart: async () => {
    await now.stop();
    now = await run(new URL(now.origin).port);
  } };
}
