// The binary under test in a bed: its own state folder, a browser that a test controls, and each process ended by its id.

import fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { end, pause } from '../../lib/processes.mjs';

const COMMAND_MS = 40_000;
const PERSON = fileURLToPath(new URL('../person.mjs', import.meta.url));
const STORE_KEY = '5a'.repeat(32);
/** The name under which a server is in the configuration file of a bed. */
export const NAME = 'it';

/** What a client that is registered beforehand may be sent back to: loopback with any port, at the paths we may use. */
export const REDIRECTS = ['127.0.0.1', 'localhost', '[::1]'].flatMap((host) =>
  ['/callback', '/oauth/callback', '/'].map((path) => `http://${host}${path}`));

export class Switchboard {
  #bed;
  #binary;
  #tabs;

  /** `browser`: `person` signs in, `later` too but is not waited for, `deny` refuses, `recorder` only notes the URL, for the test to open. */
  constructor(bed, binary, browser = 'person') {
    this.#bed = bed;
    this.#binary = binary;
    this.#tabs = bed.file('tabs', '');
    const visit = `'${process.execPath}' '${PERSON}'`;
    const then = { person: `exec ${visit} "$1" >/dev/null`, later: `${visit} "$1" >/dev/null 2>&1 &`, deny: `exec ${visit} --deny "$1" >/dev/null`, recorder: 'exit 0' };
    const script = `#!/bin/sh\nprintf '%s %s\\n' "$PPID" "$1" >>'${this.#tabs}'\n${then[browser]}\n`;
    this.env = {
      BROWSER: bed.file('browser', script, 0o700),
      SWITCHBOARD_STATE_DIR: bed.file('state'),
      SWITCHBOARD_STORE_KEY: STORE_KEY,
    };
  }

  /** The tabs that were opened so far: the process that did it, and the URL. */
  tabs() {
    const lines = fs.readFileSync(this.#tabs, 'utf8').split('\n').filter(Boolean);
    return lines.map((line) => ({ parent: Number(line.split(' ')[0]), url: line.slice(line.indexOf(' ') + 1) }));
  }

  /** Writes the configuration file with one server and its `oauth` block; gives what to put after a command. */
  configured(url, oauth, more = {}) {
    const config = { mcpServers: { [NAME]: { url, ...(oauth && { oauth }) } }, ...more };
    return [NAME, '--config', this.#bed.file('servers.json', JSON.stringify(config, null, 2))];
  }

  /** Starts a command; `said` collects what it prints. */
  start(args, { env } = {}) {
    const said = { out: [], err: [] };
    const handle = this.#bed.start('switchboard', [this.#binary, ...args], {
      env: { ...this.env, ...env }, onOut: (line) => said.out.push(line), onErr: (line) => said.err.push(line),
    });
    return { handle, said };
  }

  /** Runs a command to its end. */
  async run(args, options = {}) {
    const { handle, said } = this.start(args, options);
    await Promise.race([handle.ended, pause(options.ms ?? COMMAND_MS, undefined, { ref: false })]);
    const late = handle.code === undefined;
    await end(handle, 1000);
    return { code: late ? 'late' : handle.code, out: said.out.join('\n'), err: said.err.join('\n') };
  }

  /** Runs a command that must succeed; gives its stdout. */
  async must(args, options) {
    const { code, out, err } = await this.run(args, options);
    if (code !== 0) throw new Error(`switchboard ${args.join(' ')} ended with ${code}: ${err.slice(-600)}`);
    return out;
  }

  /** The text that a tool answers with, by `switchboard call`. */
  async call(target, tool, ...rest) {
    const [server, ...flags] = [target].flat();
    const result = JSON.parse(await this.must(['call', server, tool, '-o', 'json', ...flags, ...rest]));
    if (result.isError) throw new Error(`${tool} failed: ${JSON.stringify(result.content)}`);
    return result.content[0].text;
  }

  /** What the protected server knows of the caller. */
  async whoami(target, ...rest) {
    return JSON.parse(await this.call(target, 'whoami', ...rest));
  }

  /** A client of the SDK at `switchboard bridge` on a pipe; `pid` is the bridge's. */
  bridge(target) {
    const transport = new StdioClientTransport({
      command: this.#binary, args: ['bridge', ...[target].flat()], env: { ...process.env, ...this.env }, stderr: 'ignore',
    });
    const client = new Client({ name: 'oauth-run', version: '1' });
    const ready = client.connect(transport, { timeout: COMMAND_MS });
    ready.catch(() => {}); // a bridge may be killed before somebody waits for it
    const whoami = async () => {
      await ready;
      return JSON.parse((await client.callTool({ name: 'whoami', arguments: {} }, { timeout: COMMAND_MS })).content[0].text);
    };
    return { client, ready, whoami, pid: () => transport.pid, close: () => client.close().catch(() => {}) };
  }
}

/** Waits until `find` gives something; fails with `what` when that takes too long. */
export async function until(find, what, ms = 20_000) {
  for (const deadline = Date.now() + ms; Date.now() < deadline; await pause(50)) {
    const found = await find();
    if (found) return found;
  }
  throw new Error(`${what} did not happen within ${ms / 1000} s`);
}
