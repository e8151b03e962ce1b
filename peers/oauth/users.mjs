// Flows of a gateway whose users have accounts of their own at each server.

import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { announced, start } from '../lib/processes.mjs';
import { GATE_CLIENT } from './lib/bed.mjs';
import { until } from './lib/switchboard.mjs';
import * as chromium from './chromium.mjs';
import { visit } from './person.mjs';

const CHILD = fileURLToPath(new URL('lib/token-child.mjs', import.meta.url));
const KEYS = { ada: 'key-of-ada-0123456789abcdef', bob: 'key-of-bob-0123456789abcdef' };
const USERS = Object.keys(KEYS);
const KEYS_IN_FILE = Object.fromEntries(USERS.map((user) => [user, { key: KEYS[user] }]));
const CALLS = 1000;
const LONG = { ttl: '3600' };
const VERSION = '2026-07-28';

/** A gateway for two users, with these servers; `url` is its endpoint. */
async function gateway(bed, switchboard, binary, mcpServers, access = { keys: KEYS_IN_FILE }) {
  const file = bed.file('users.json', JSON.stringify({ mcpServers, switchboard: access }));
  const log = [];
  const begin = (onOut) =>
    start('gateway', [binary, 'serve', '--config', file, '--port', '0', '--no-cache'], {
      env: switchboard.env, onOut, onErr: (line) => log.push(line),
    });
  const [handle, url] = await announced(begin, (line) => /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(line)?.[0], 20_000);
  bed.keep(handle);
  return { url, file, log };
}

const person = (id, method) => ({
  client_id: id, token_endpoint_auth_method: method, application_type: 'native', response_types: ['code'], grant_types: ['authorization_code'],
});

let id = 0;

/** One request of a modern client. */
export async function modern(url, user, method, params = {}, capabilities = {}) {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': VERSION,
    'io.modelcontextprotocol/clientInfo': { name: 'users', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': capabilities,
  };
  const headers = {
    'content-type': 'application/json', accept: 'application/json, text/event-stream', authorization: `Bearer ${KEYS[user]}`,
    'mcp-protocol-version': VERSION, 'mcp-method': method, ...(params.name && { 'mcp-name': params.name }),
  };
  const body = JSON.stringify({ jsonrpc: '2.0', id: (id += 1), method, params: { ...params, _meta: meta } });
  const response = await fetch(url, { method: 'POST', headers, body });
  const text = await response.text();
  const data = text.startsWith('{') ? text : text.split('\n').filter((line) => line.startsWith('data: {')).at(-1)?.slice(6);
  assert.notEqual(response.status, 401, 'the 401 of a server is never ours (OU-7)');
  return JSON.parse(data ?? text);
}

const called = (url, user, name, capabilities) => modern(url, user, 'tools/call', { name, arguments: {} }, capabilities);

/** A client of the SDK with the handshake of 2025-11-25. */
async function legacy(url, user, capabilities = {}) {
  const client = new Client({ name: 'users', version: '1' }, { capabilities });
  const requestInit = { headers: { authorization: `Bearer ${KEYS[user]}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  return client;
}

/** The link in what a call was answered with. */
const linkIn = (result) => /http:\/\/\S+\/connect\/[0-9a-f]{32}/.exec(JSON.stringify(result))?.[0];

/** Calls `tool` as somebody who has to sign in, and signs in. */
async function connect(url, user, tool) {
  const { result } = await called(url, user, tool);
  assert.equal(result.isError, true, JSON.stringify(result));
  const link = linkIn(result);
  const page = await visit(link, { user, key: KEYS[user] });
  assert.deepEqual([page.status, page.url.pathname], [200, '/oauth/callback'], page.text);
  return link;
}

const subject = ({ result }) => {
  assert.notEqual(result?.isError, true, JSON.stringify(result));
  return JSON.parse(result.content[0].text).sub;
};

/** Every call of many, of both users and both eras, is made with its own user's token. */
async function mixed(url, tool) {
  const clients = Object.fromEntries(await Promise.all(USERS.map(async (user) => [user, await legacy(url, user)])));
  const one = async (at) => {
    const user = USERS[at % 2];
    const said = at % 4 < 2 ? await called(url, user, tool) : { result: await clients[user].callTool({ name: tool, arguments: {} }) };
    return subject(said) === user;
  };
  let right = 0;
  for (let at = 0; at < CALLS; at += 20) {
    const found = await Promise.all(Array.from({ length: 20 }, (_, more) => one(at + more)));
    right += found.filter(Boolean).length;
  }
  await Promise.all(Object.values(clients).map((client) => client.close()));
  return right;
}

const names = async (url, user) => (await modern(url, user, 'tools/list')).result.tools.map(({ name }) => name).sort();

export function users(scenario) {
  // wire: OU-1, OU-2, OU-3, OU-4, OU-6, OU-7
  scenario('users: two users with two accounts at one server, 1,000 mixed calls', 180_000, async (bed, open, { binary }) => {
    const provider = await bed.provider(LONG);
    const server = await bed.protected(provider);
    const { url } = await gateway(bed, open(), binary, { it: { url: server.url, oauth: true } });
    assert.deepEqual(await names(url, 'ada'), ['it__sign_in']);
    for (const user of USERS) await connect(url, user, 'it__whoami');
    await until(async () => (await names(url, 'ada')).includes('it__whoami'), 'the list');
    assert.equal(await mixed(url, 'it__whoami'), CALLS);
    const { sign_ins: signIns, registrations } = await provider.counts();
    assert.deepEqual({ signIns, registrations }, { signIns: 2, registrations: 1 });
  });

  for (const inject of [{ env: 'UPSTREAM_TOKEN' }, { file: 'UPSTREAM_TOKEN_FILE' }]) {
    const how = Object.keys(inject)[0];
    // wire: OU-13
    scenario(`users: a child process for each user, with their token by ${how}, 1,000 mixed calls`, 180_000, async (bed, open, { binary }) => {
      const provider = await bed.provider(LONG);
      const resource = 'https://api.test/';
      await provider.allow(resource);
      const oauth = { issuer: provider.issuer, resource, scopes: ['mcp:read'], inject };
      const { url } = await gateway(bed, open(), binary, { it: { command: process.execPath, args: [CHILD], oauth } });
      for (const user of USERS) await connect(url, user, 'it__whoami');
      assert.equal(await mixed(url, 'it__whoami'), CALLS);
    });
  }

  // wire: OU-13
  scenario('users: tokens of children are renewed: a file is written again, a process with a variable is another', 90_000, async (bed, open, { binary }) => {
    const provider = await bed.provider({ ttl: '4' });
    const resource = 'https://api.test/';
    await provider.allow(resource);
    const child = (inject) => ({
      command: process.execPath, args: [CHILD], oauth: { issuer: provider.issuer, resource, scopes: ['mcp:read', 'offline_access'], inject },
    });
    const servers = { env: child({ env: 'UPSTREAM_TOKEN' }), file: child({ file: 'UPSTREAM_TOKEN_FILE' }) };
    const { url } = await gateway(bed, open(), binary, servers);
    const told = async (name) => JSON.parse((await called(url, 'ada', `${name}__whoami`)).result.content[0].text);
    for (const name of ['env', 'file']) await connect(url, 'ada', `${name}__whoami`);
    const before = { env: await told('env'), file: await told('file') };
    const after = async (name) => {
      const now = await told(name);
      return now.jti !== before[name].jti && now;
    };
    assert.equal((await until(() => after('file'), 'the renewal')).pid, before.file.pid);
    assert.notEqual((await until(() => after('env'), 'the restart')).pid, before.env.pid);
    assert.ok((await provider.counts()).refreshes >= 2);
  });

  // wire: OU-5, UTL-8
  scenario('users: clients of three eras are asked to sign in in their own way', 60_000, async (bed, open, { binary }) => {
    const provider = await bed.provider(LONG);
    const server = await bed.protected(provider);
    const { url } = await gateway(bed, open(), binary, { it: { url: server.url, oauth: true } });
    const pages = { elicitation: { url: {} } };

    const asked = await called(url, 'ada', 'it__whoami', pages);
    assert.equal(asked.result.resultType, 'input_required', JSON.stringify(asked));
    const [[key, question]] = Object.entries(asked.result.inputRequests);
    assert.equal(question.params.mode, 'url');
    const params = { name: 'it__whoami', arguments: {}, requestState: asked.result.requestState, inputResponses: { [key]: { action: 'accept' } } };
    // wire: OA-23
    const stolen = await modern(url, 'bob', 'tools/call', params, pages);
    assert.ok(stolen.error, `another user's state: ${JSON.stringify(stolen)}`);
    const retry = modern(url, 'ada', 'tools/call', params, pages);
    await visit(question.params.url, { user: 'ada', key: KEYS.ada });
    assert.equal(subject(await retry), 'ada', 'the call goes on when the user is done');

    const client = await legacy(url, 'bob', pages);
    const completed = [];
    client.setNotificationHandler('notifications/elicitation/complete', ({ params: { elicitationId } }) => completed.push(elicitationId));
    const error = await client.callTool({ name: 'it__whoami', arguments: {} }).catch((refused) => refused);
    assert.equal(error.code, -32042, String(error));
    const [page] = error.data.elicitations;
    assert.deepEqual([page.mode, typeof page.message], ['url', 'string']);

    const plain = await legacy(url, 'bob');
    const words = await plain.callTool({ name: 'it__whoami', arguments: {} });
    assert.deepEqual([words.isError, linkIn(words)], [true, page.url], 'the same link while it is new');
    await plain.close();

    await visit(page.url, { user: 'bob', key: KEYS.bob });
    await until(() => completed.includes(page.elicitationId), 'the notification');
    assert.equal(subject({ result: await client.callTool({ name: 'it__whoami', arguments: {} }) }), 'bob');
    await client.close();
  });

  // wire: OU-6, OU-9
  scenario('users: at the path of one server, and after a user has disconnected', 60_000, async (bed, open, { binary }) => {
    const provider = await bed.provider({ ...LONG, opaque: true, clients: [GATE_CLIENT] });
    const server = await bed.protected(provider, { opaque: true });
    const switchboard = open();
    const { url, file, log } = await gateway(bed, switchboard, binary, { it: { url: server.url, oauth: true } });
    const one = url.replace(/\/mcp$/, '/servers/it/mcp');
    const client = await legacy(one, 'ada');
    let changed = 0;
    client.setNotificationHandler('notifications/tools/list_changed', () => (changed += 1));
    assert.deepEqual((await client.listTools()).tools.map(({ name }) => name), ['sign_in']);
    const link = linkIn(await client.callTool({ name: 'sign_in', arguments: {} }));
    await visit(link, { user: 'ada', key: KEYS.ada });
    await until(() => changed > 0, 'the notification');
    assert.equal((await client.listTools()).tools.length, 3);
    assert.equal(subject({ result: await client.callTool({ name: 'whoami', arguments: {} }) }), 'ada');
    assert.equal(subject(await called(one, 'ada', 'whoami')), 'ada');

    const { revocations } = await provider.counts();
    await switchboard.must(['logout', 'it', '--config', file, '--principal', 'ada']);
    assert.equal((await provider.counts()).revocations, revocations + 2);
    assert.equal((await called(one, 'ada', 'whoami')).result.isError, true);
    assert.equal((await client.callTool({ name: 'whoami', arguments: {} })).isError, true);
    await client.close();
    assert.ok(!log.some((line) => line.includes(link.slice(-32)) || line.includes('eyJ')), 'neither links nor tokens in the log');
  });

  // wire: OU-3, OA-22
  scenario('users: a user with an access token shows who they are at the same issuer', 60_000, async (bed, open, { binary }) => {
    const desk = { ...person('gw', 'none'), redirect_uris: ['http://127.0.0.1/oauth/callback'] };
    const provider = await bed.provider({ ...LONG, clients: [desk] });
    const server = await bed.protected(provider);
    const issuers = { corp: { issuer: provider.issuer, clientId: 'gw', grant: { servers: ['*'] } } };
    const switchboard = open();
    const { url } = await gateway(bed, switchboard, binary, { it: { url: server.url, oauth: true } }, { oauth: { issuers } });
    await provider.allow(url);
    await switchboard.must(['login', url]);
    const link = async () => linkIn((await switchboard.run(['call', url, 'it__whoami', '-o', 'json'])).out);
    const other = await visit(await link(), { user: 'bob' });
    assert.equal(other.status, 403, `somebody else at the same issuer: ${other.text}`);
    const page = await visit(await link(), { user: 'ada' });
    assert.deepEqual([page.status, page.url.pathname], [200, '/oauth/callback'], page.text);
    assert.equal(JSON.parse(await switchboard.call(url, 'it__whoami')).sub, 'ada');
  });

  // console: C-32, C-38
  scenario('users: Chromium signs in to the console at the issuer, and sees what a token grants', 90_000, async (bed, open, { binary }) => {
    const desk = { ...person('gw', 'none'), redirect_uris: ['http://127.0.0.1/oauth/callback'] };
    const provider = await bed.provider({ ...LONG, clients: [desk] });
    const server = await bed.protected(provider);
    const issuers = { corp: { issuer: provider.issuer, clientId: 'gw', grant: { servers: ['it'] } } };
    const hidden = { command: binary, args: ['demo'] };
    const { url, log } = await gateway(bed, open(), binary, { it: { url: server.url, oauth: true }, hidden }, { oauth: { issuers } });
    const console = new URL('/console/', url).href;
    const begin = async (page) => {
      await page.getByRole('button', { name: `Sign in with ${new URL(provider.issuer).host}` }).click();
      await page.waitForURL((to) => to.href.startsWith(provider.issuer));
    };
    const seen = await chromium.visit(`${console}#/servers`, { user: 'ada', begin });
    assert.equal(seen.url.hash, '#/', 'the link is taken out of the address');
    assert.match(seen.text, /corp\/ada · own view · read only/);
    assert.ok(!seen.text.includes('hidden') && seen.text.includes('of 1 server'), seen.text);
    assert.ok(!log.some((line) => line.includes('#link=') && !line.includes('Open the console')), 'no link in the log');
    const refused = await chromium.visit(console, { user: 'ada', deny: true, begin });
    assert.match(refused.text, /You are not signed in/);
  });

  // wire: OU-3, OU-4
  scenario('users: Chromium at the connect page, without script', 60_000, async (bed, open, { binary }) => {
    const provider = await bed.provider(LONG);
    const server = await bed.protected(provider);
    const { url } = await gateway(bed, open(), binary, { it: { url: server.url, oauth: true } });
    const link = linkIn(await called(url, 'ada', 'it__whoami'));
    const screenshots = process.env.SCREENSHOTS;
    const page = await chromium.visit(link, { user: 'ada', key: KEYS.ada, script: false, screenshots });
    assert.deepEqual([page.status, page.url.pathname], [200, '/oauth/callback'], page.text);
    assert.equal(subject(await called(url, 'ada', 'it__whoami')), 'ada');
  });
}
