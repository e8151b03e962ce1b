// The test bed of one test: providers, protected servers, other processes and files, all ended and deleted with it.

import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { announced, end, start } from '../../lib/processes.mjs';

const READY_MS = 20_000;
const at = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const flags = (options) =>
  Object.entries(options).flatMap(([name, value]) => {
    if (value === false || value === undefined) return [];
    if (value === true) return [`--${name}`];
    const texts = [value].flat().every((one) => typeof one === 'string') ? [value].flat() : [JSON.stringify(value)];
    return texts.flatMap((one) => [`--${name}`, one]);
  });

/** The client as which the protected server introspects opaque tokens. */
export const GATE_CLIENT = {
  client_id: 'gate', client_secret: 'gate-secret', redirect_uris: [], response_types: [], grant_types: ['client_credentials'],
};

export class Bed {
  #handles = [];
  #servers = [];
  place = fs.mkdtempSync(path.join(os.tmpdir(), 'peers-oauth-'));

  /** A file of this bed; text is written to it. */
  file(name, content, mode = 0o600) {
    const file = path.join(this.place, name);
    if (content !== undefined) fs.writeFileSync(file, content, { mode });
    return file;
  }

  async #node(name, script, options) {
    const argv = [process.execPath, at(script), ...flags(options)];
    const begin = (onOut) => start(name, argv, { onOut });
    const [handle, url] = await announced(begin, (line) => /^ready (\S+)/.exec(line)?.[1], READY_MS);
    this.#handles.push(handle);
    return { url, handle, counts: () => ask(new URL('/admin/counts', url)), end: () => end(handle) };
  }

  /** An authorization server; `options` are the flags of provider.mjs. */
  async provider(options = {}) {
    const provider = await this.#node('provider', 'provider.mjs', options);
    const allow = (resource) => fetch(`${provider.url}/admin/resources`, { method: 'POST', body: resource });
    const secrets = () => ask(`${provider.url}/admin/secrets`);
    return { ...provider, issuer: provider.url, allow, secrets };
  }

  /** A protected server for tokens of `provider`; `options` are the flags of protected.mjs. */
  async protected(provider, options = {}) {
    const server = await this.#node('protected', 'protected.mjs', { issuer: provider.issuer, ...options });
    await provider.allow(server.url);
    const refuse = (hash) => fetch(new URL('/admin/refuse', server.url), { method: 'POST', body: hash });
    return { ...server, refuse };
  }

  /** Serves JSON documents by path, for client metadata; gives its origin and how often each path was asked. */
  async documents(paths) {
    const asked = {};
    const server = http.createServer((req, res) => {
      asked[req.url] = (asked[req.url] ?? 0) + 1;
      const found = paths[req.url];
      res.writeHead(found ? 200 : 404, { 'content-type': 'application/json' });
      res.end(JSON.stringify(found ?? {}));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    this.#servers.push(server);
    return { origin: `http://127.0.0.1:${server.address().port}`, asked };
  }

  /** Any other command, by `start` of peers/lib/processes.mjs. */
  start(name, argv, options) {
    const handle = start(name, argv, options);
    this.#handles.push(handle);
    return handle;
  }

  /** Ends a process with the bed that was not started by it. */
  keep(handle) {
    this.#handles.push(handle);
  }

  async close() {
    for (const handle of this.#handles.reverse()) await end(handle, 3000);
    for (const server of this.#servers) server.closeAllConnections(), server.close();
    fs.rmSync(this.place, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** The JSON that a URL answers with. */
export async function ask(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} answers ${response.status}`);
  return response.json();
}

/** A port that was free a moment ago, for a server that others must know beforehand. */
export async function freePort() {
  const listener = net.createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  listener.close();
  await once(listener, 'close');
  return port;
}
