// The flows that the binary has to pass against the provider: each is a function with a bed of its own.
// `oauth` blocks are those of the configuration file; `switchboard.configured` writes it. The rules that a flow shows are
// named above it, after `wire:`: docs/wire-coverage.md is made from that.

import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { once } from 'node:events';
import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { exportJWK, exportPKCS8, generateKeyPair } from 'jose';
import { announced, end, start } from '../lib/processes.mjs';
import { GATE_CLIENT, freePort } from './lib/bed.mjs';
import { serve } from './lib/gateway.mjs';
import { sdkClient } from './lib/sdk-client.mjs';
import { REDIRECTS, Switchboard, until } from './lib/switchboard.mjs';
import * as chromium from './chromium.mjs';
import { visit } from './person.mjs';
import { users } from './users.mjs';

const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const LONG = { ttl: '3600' };
const MANY = 10;

export const flows = [];
/** `ms` bounds the whole flow; `work(bed, open, { rounds })` has `open(browser)` for the binary with a browser. */
const scenario = (name, ms, work) => flows.push({ name, ms, work });

const machine = (id, method, grants, more = {}) => ({
  client_id: id, token_endpoint_auth_method: method, redirect_uris: [], response_types: [], grant_types: grants, ...more,
});
const person = (id, method, more = {}) => ({
  client_id: id, token_endpoint_auth_method: method, redirect_uris: REDIRECTS, application_type: 'native',
  response_types: ['code'], grant_types: ['authorization_code', 'refresh_token'], ...more,
});

/** A key pair: the public part as a JWK, the private one in a file. */
async function keyPair(bed) {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), kid: 'c1', alg: 'ES256', use: 'sig' };
  return { jwks: { keys: [jwk] }, file: bed.file('key.pem', await exportPKCS8(privateKey)) };
}

/** Signs in once with `oauth`, as a client that is registered beforehand, and calls. */
async function registered(bed, open, client, oauth) {
  const provider = await bed.provider({ clients: [client], 'no-registration': true, 'no-cimd': true });
  const server = await bed.protected(provider);
  const switchboard = open();
  const target = switchboard.configured(server.url, { clientId: client.client_id, ...oauth });
  await switchboard.must(['login', ...target]);
  const { sub, client_id: id } = await switchboard.whoami(target);
  assert.deepEqual({ sub, id }, { sub: 'ada', id: client.client_id });
  const counts = await provider.counts();
  assert.equal(counts.sign_ins, 1);
  assert.equal(counts.grants.authorization_code, 1);
  assert.equal(switchboard.tabs().length, 1);
  return { provider, server, switchboard, target };
}

// wire: OC-1, OC-3, OC-6, OC-30, OC-34, OC-35, OC-48
scenario('code: a bridge that meets a 401 signs in and calls', 60_000, async (bed, open) => {
  const provider = await bed.provider({ clients: [person('desk', 'none')], 'no-registration': true, 'no-cimd': true });
  const server = await bed.protected(provider);
  const switchboard = open();
  const bridge = switchboard.bridge(switchboard.configured(server.url, { clientId: 'desk' }));
  assert.equal((await bridge.whoami()).sub, 'ada');
  assert.equal((await bridge.whoami()).client_id, 'desk');
  await bridge.close();
  const { sign_ins: signIns, authorizations, token_requests: tokens } = await provider.counts();
  assert.deepEqual({ signIns, authorizations, tokens, tabs: switchboard.tabs().length }, { signIns: 1, authorizations: 1, tokens: 1, tabs: 1 });
});

// wire: OC-10, OC-32, OC-44, OT-6
scenario('refresh: each renewal rotates, and nobody signs in again', 60_000, async (bed, open) => {
  const provider = await bed.provider(LONG);
  const server = await bed.protected(provider);
  const switchboard = open();
  await switchboard.must(['login', server.url]);
  for (let round = 1; round <= 3; round += 1) {
    const before = await switchboard.whoami(server.url);
    await server.refuse(before.authorization);
    const after = await switchboard.whoami(server.url);
    assert.notEqual(after.authorization, before.authorization);
    const { refreshes, sign_ins: signIns, errors } = await provider.counts();
    assert.deepEqual({ refreshes, signIns, errors }, { refreshes: round, signIns: 1, errors: {} });
  }
});

// wire: OC-50, OC-51, OC-52
scenario('step-up: a call that needs more scope leads to one wider authorization', 60_000, async (bed, open) => {
  const provider = await bed.provider(LONG);
  const server = await bed.protected(provider);
  const switchboard = open();
  const bridge = switchboard.bridge(server.url);
  assert.deepEqual((await bridge.whoami()).scopes, ['mcp:read']);
  const result = await bridge.client.callTool({ name: 'write', arguments: {} });
  assert.equal(result.content[0].text, 'written');
  assert.deepEqual((await bridge.whoami()).scopes.sort(), ['mcp:read', 'mcp:write']);
  await bridge.close();
  assert.equal((await provider.counts()).authorizations, 2);
  assert.equal((await provider.counts()).registrations, 1);
  assert.equal((await server.counts()).forbidden, 1);
});

// wire: OC-20, OC-22
scenario('CIMD: the client id is the URL of its document, and nothing is registered', 60_000, async (bed, open) => {
  const id = 'https://client.test/client.json';
  const metadata = { ...person(id, 'none'), client_name: 'Switchboard' };
  const site = await bed.documents({ '/client.json': metadata });
  const provider = await bed.provider({ 'cimd-at': site.origin });
  const server = await bed.protected(provider);
  const switchboard = open();
  await switchboard.must(['login', server.url, '--client-metadata-url', id]);
  assert.equal((await switchboard.whoami(server.url)).client_id, id);
  assert.equal((await provider.counts()).registrations, 0);
});

// wire: OC-21, OC-22, OC-40
scenario('CIMD: a document with a key, which signs the requests for tokens', 60_000, async (bed, open) => {
  const id = 'https://client.test/client.json';
  const { jwks, file } = await keyPair(bed);
  const metadata = { ...person(id, 'private_key_jwt', { jwks, token_endpoint_auth_signing_alg: 'ES256' }), client_name: 'Switchboard' };
  const site = await bed.documents({ '/client.json': metadata });
  const provider = await bed.provider({ ...LONG, 'cimd-at': site.origin });
  const server = await bed.protected(provider);
  const switchboard = open();
  const target = switchboard.configured(server.url, { clientMetadataUrl: id, privateKeyFile: file });
  await switchboard.must(['login', ...target]);
  const before = await switchboard.whoami(target);
  assert.equal(before.client_id, id);
  await server.refuse(before.authorization);
  assert.notEqual((await switchboard.whoami(target)).authorization, before.authorization);
  const { registrations, refreshes } = await provider.counts();
  assert.deepEqual({ registrations, refreshes }, { registrations: 0, refreshes: 1 });
});

// wire: OC-23, OC-25, OC-38
scenario('DCR: one registration serves all later sign-ins', 60_000, async (bed, open) => {
  const provider = await bed.provider({ 'no-cimd': true });
  const server = await bed.protected(provider);
  const switchboard = open();
  await switchboard.must(['login', server.url]);
  const first = await switchboard.whoami(server.url);
  await switchboard.must(['whoami', server.url]);
  await switchboard.must(['login', server.url, '--scope', 'mcp:read mcp:write']);
  const second = await switchboard.whoami(server.url);
  assert.equal(first.client_id, second.client_id);
  const { registrations, sign_ins: signIns } = await provider.counts();
  assert.deepEqual({ registrations, signIns }, { registrations: 1, signIns: 2 });
});

// wire: OC-40
scenario('pre-registered: a secret by Basic', 60_000, (bed, open) =>
  registered(bed, open, person('desk', 'client_secret_basic', { client_secret: 'a secret+&%' }), { clientSecret: 'a secret+&%' }));

// wire: OC-40
scenario('pre-registered: a secret in the body', 60_000, (bed, open) =>
  registered(bed, open, person('desk', 'client_secret_post', { client_secret: 's3' }), { clientSecret: 's3', clientAuth: 'client_secret_post' }));

// wire: OC-40, OX-1
scenario('pre-registered: private_key_jwt', 60_000, async (bed, open) => {
  const { jwks, file } = await keyPair(bed);
  await registered(bed, open, person('desk', 'private_key_jwt', { jwks }), { privateKeyFile: file });
});

// wire: OX-1
scenario('client credentials: no person, no registration, no refresh token', 60_000, async (bed, open) => {
  const { jwks, file } = await keyPair(bed);
  const provider = await bed.provider({ ...LONG, clients: [machine('batch', 'private_key_jwt', ['client_credentials'], { jwks })] });
  const server = await bed.protected(provider);
  const switchboard = open();
  const target = switchboard.configured(server.url, { grant: 'client-credentials', clientId: 'batch', privateKeyFile: file });
  const before = await switchboard.whoami(target);
  assert.equal(before.client_id, 'batch');
  await server.refuse(before.authorization);
  assert.notEqual((await switchboard.whoami(target)).authorization, before.authorization);
  const { grants, registrations } = await provider.counts();
  assert.deepEqual({ grants, registrations, tabs: switchboard.tabs().length }, { grants: { client_credentials: 2 }, registrations: 0, tabs: 0 });
});

// wire: OC-37
scenario('device: the URL is printed, and the sign-in ends when the person is done', 60_000, async (bed, open) => {
  const provider = await bed.provider();
  const server = await bed.protected(provider);
  const switchboard = open('recorder');
  const { handle, said } = switchboard.start(['login', server.url, '--device-code']);
  const page = await until(() => /http:\/\/\S+\/device\?user_code=[\w-]+/.exec([...said.err, ...said.out].join('\n'))?.[0], 'the URL');
  assert.equal((await visit(page)).status, 200);
  await handle.ended;
  assert.equal(handle.code, 0, said.err.join('\n'));
  assert.equal((await switchboard.whoami(server.url)).sub, 'ada');
  assert.equal((await provider.counts()).grants.device_code >= 1, true);
  assert.equal(switchboard.tabs().length, 0);
});

// wire: OX-2
scenario('EMA: one sign-in at the identity provider, no browser at the authorization server', 60_000, async (bed, open) => {
  const desk = person('desk', 'client_secret_basic', { client_secret: 'i', grant_types: ['authorization_code', 'refresh_token', EXCHANGE] });
  const idp = await bed.provider({ exchange: true, clients: [desk], 'client-ids': { desk: 'desk-at-as' } });
  const atAs = machine('desk-at-as', 'client_secret_basic', [JWT_BEARER], { client_secret: 's' });
  const provider = await bed.provider({ 'trust-idp': idp.issuer, clients: [atAs] });
  const server = await bed.protected(provider);
  const switchboard = open();
  const oauth = { grant: 'enterprise', clientId: 'desk-at-as', clientSecret: 's', idp: { issuer: idp.issuer, clientId: 'desk', clientSecret: 'i' } };
  const target = switchboard.configured(server.url, oauth);
  await switchboard.must(['login', ...target]);
  assert.equal((await switchboard.whoami(target)).sub, 'ada');
  const [atIdp, here] = [await idp.counts(), await provider.counts()];
  assert.equal(atIdp.sign_ins, 1);
  assert.equal(here.authorizations, 0);
  assert.deepEqual(here.grants, { 'jwt-bearer': 1 });
});

/** A gateway with a facade, before a provider that registers nobody; `restart()` starts it again on the same port. */
async function facade(bed, open, binary) {
  const port = await freePort();
  const base = `http://127.0.0.1:${port}`;
  const us = person('gw', 'client_secret_basic', { client_secret: 's', redirect_uris: [`${base}/oauth/signed-in`] });
  const provider = await bed.provider({ ...LONG, clients: [us], 'no-registration': true, 'no-cimd': true });
  const file = bed.file('facade.json', JSON.stringify({
    mcpServers: { demo: { command: binary, args: ['demo'] } },
    switchboard: {
      publicUrl: base,
      oauth: {
        issuers: { corp: { issuer: provider.issuer, grant: { servers: ['*'] } } },
        facade: { issuer: 'corp', clientId: 'gw', clientSecret: '${FACADE_SECRET}' },
      },
    },
  }));
  const { env } = open('recorder');
  const run = async () => {
    const begin = (onOut) => start('facade', [binary, 'serve', '--config', file, '--port', `${port}`], { env: { ...env, FACADE_SECRET: 's' }, onOut });
    const [gateway] = await announced(begin, (line) => /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(line)?.[0], 20_000);
    bed.keep(gateway);
    return gateway;
  };
  let running = await run();
  const restart = async () => {
    await end(running);
    running = await run();
  };
  return { base, url: `${base}/mcp`, provider, restart };
}

// wire: OS-1, OS-4, OS-5, OS-6, OS-7, OS-8, OS-9, OS-14
scenario('facade: a client registers with the gateway, a person consents and signs in, and a restart ends nothing', 90_000, async (bed, open, { binary }) => {
  const { url, provider, restart } = await facade(bed, open, binary);
  const { client, again, kept, token } = await sdkClient(url);
  const { tools } = await client.listTools();
  assert.ok(tools.some(({ name }) => name === 'demo__echo'), tools.map(({ name }) => name).join(' '));
  const said = await client.callTool({ name: 'demo__echo', arguments: { message: 'through the facade' } });
  assert.match(said.content[0].text, /through the facade/);
  await client.close();
  assert.deepEqual((await provider.counts()).sign_ins, 1);
  const before = { token: token(), refresh: kept.tokens.refresh_token };
  await restart();
  // The access token still counts. Without it, the refresh token gets another one.
  await (await again()).close();
  assert.equal(token(), before.token);
  kept.tokens = { ...kept.tokens, access_token: `${before.token.slice(0, -6)}AAAAAA` };
  const renewed = await again();
  await renewed.callTool({ name: 'demo__echo', arguments: { message: 'renewed' } });
  await renewed.close();
  assert.notEqual(kept.tokens.refresh_token, before.refresh);
  const { registrations, sign_ins: signIns } = await provider.counts();
  assert.deepEqual({ registrations, signIns }, { registrations: 0, signIns: 1 });
});

// wire: OS-4, OS-11
scenario('facade in Chromium: our page asks without script, and a person who refuses is not sent to the provider', 90_000, async (bed, open, { binary }) => {
  const { url, provider } = await facade(bed, open, binary);
  const listener = http.createServer((_, response) => response.end('back')).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  try {
    const callback = `http://127.0.0.1:${listener.address().port}/callback`;
    let asked;
    const browse = async (page) => {
      asked = `${page}`;
      const denied = await chromium.visit(asked, { script: false, deny: true });
      const { error, iss } = Object.fromEntries(denied.url.searchParams);
      assert.deepEqual({ error, iss }, { error: 'access_denied', iss: new URL(url).origin });
      assert.equal((await provider.counts()).authorizations, 0);
      return (await chromium.visit(asked, { script: false, screenshots: process.env.SCREENSHOTS })).url;
    };
    const { client } = await sdkClient(url, browse, callback);
    const said = await client.callTool({ name: 'demo__echo', arguments: { message: 'by a browser' } });
    assert.match(said.content[0].text, /by a browser/);
    await client.close();
    assert.equal((await provider.counts()).sign_ins, 1);
  } finally {
    listener.close();
  }
});

// wire: OS-1, OS-2, OS-9
scenario('facade: the official scenarios for authorization servers pass', 120_000, async (bed, open, { binary }) => {
  const { base } = await facade(bed, open, binary);
  const port = `${await freePort()}`;
  const about = { client_name: 'conformance', redirect_uris: [`http://127.0.0.1:${port}/callback`], application_type: 'native' };
  const registered = await fetch(`${base}/oauth/register`, { method: 'POST', body: JSON.stringify(about) });
  const { client_id: id } = await registered.json();
  assert.equal(registered.status, 201);
  const said = [];
  const suite = fileURLToPath(new URL('../../conformance/authorization.mjs', import.meta.url));
  const note = (line) => said.push(line);
  const run = start('conformance', [process.execPath, suite, '--url', base, '--client-id', id, '--port', port], { onOut: note, onErr: note });
  bed.keep(run);
  await run.ended;
  assert.equal(run.code, 0, said.join('\n'));
  assert.match(said.join('\n'), /2 passed, 0 failed/);
});

// wire: OX-6, OR-17
scenario('exchange: the gateway gets a token of its own for the upstream, for the same user', 60_000, async (bed, open, { binary }) => {
  const provider = await bed.provider({ ...LONG, exchange: true, clients: [machine('gw', 'client_secret_basic', [EXCHANGE], { client_secret: 's' })] });
  const upstream = await bed.protected(provider);
  const config = {
    mcpServers: { up: { url: upstream.url, oauth: { grant: 'token-exchange', issuer: provider.issuer, clientId: 'gw', clientSecret: 's' } } },
    switchboard: { oauth: { issuers: { corp: { issuer: provider.issuer, grant: { servers: ['*'] } } } } },
  };
  const { url } = await serve(bed, open(), binary, config);
  await provider.allow(url);
  const { client, token } = await sdkClient(url);
  const result = await client.callTool({ name: 'up__whoami', arguments: {} });
  await client.close();
  const said = JSON.parse(result.content[0].text);
  assert.equal(said.sub, 'ada');
  assert.equal(said.client_id, 'gw');
  assert.notEqual(said.authorization, createHash('sha256').update(token()).digest('hex'));
  assert.equal((await provider.counts()).grants['token-exchange'], 1);
});

// wire: OX-5
scenario('DPoP: proofs with nonces at both servers', 60_000, async (bed, open) => {
  const provider = await bed.provider({ ...LONG, nonce: true });
  const server = await bed.protected(provider, { nonce: true, 'dpop-only': true });
  const switchboard = open();
  const target = switchboard.configured(server.url, { dpop: true });
  await switchboard.must(['login', ...target]);
  const first = await switchboard.whoami(target);
  assert.equal(first.scheme, 'DPoP');
  await server.refuse(first.authorization);
  assert.equal((await switchboard.whoami(target)).sub, 'ada');
  const { refreshes, sign_ins: signIns } = await provider.counts();
  assert.deepEqual({ refreshes: refreshes > 0, signIns }, { refreshes: true, signIns: 1 });
});

// wire: OC-49, OR-13
scenario('revocation: signing out revokes both tokens and forgets them', 60_000, async (bed, open) => {
  const provider = await bed.provider({ ...LONG, opaque: true, clients: [GATE_CLIENT] });
  const server = await bed.protected(provider, { opaque: true });
  const switchboard = open();
  await switchboard.must(['login', server.url]);
  assert.equal((await switchboard.whoami(server.url)).sub, 'ada');
  await switchboard.must(['logout', server.url]);
  assert.equal((await provider.counts()).revocations, 2);
  assert.notEqual((await switchboard.run(['whoami', server.url])).code, 0);
  assert.equal((await switchboard.run(['call', server.url, 'whoami'])).code, 3);
  assert.equal(switchboard.tabs().length, 1);
});

// wire: OC-44, OC-47
scenario('expiry: a token that is over is renewed before the server sees it', 60_000, async (bed, open) => {
  const provider = await bed.provider({ ttl: '3' });
  const server = await bed.protected(provider);
  const switchboard = open();
  await switchboard.must(['login', server.url]);
  const { exp } = await switchboard.whoami(server.url);
  await until(() => Date.now() / 1000 > exp + 1, 'the end of the token');
  const { unauthorized } = await server.counts();
  assert.equal((await switchboard.whoami(server.url)).sub, 'ada');
  assert.equal((await server.counts()).unauthorized, unauthorized);
  const { sign_ins: signIns, refreshes } = await provider.counts();
  assert.deepEqual({ signIns, renewed: refreshes > 0 }, { signIns: 1, renewed: true });
});

// wire: OC-26, OC-45
scenario('forgotten: an authorization server that lost its clients gets one new registration', 60_000, async (bed, open) => {
  const provider = await bed.provider(LONG);
  const server = await bed.protected(provider);
  const switchboard = open();
  await switchboard.must(['login', server.url]);
  await provider.end();
  const again = await bed.provider({ ...LONG, port: new URL(provider.issuer).port, kid: 'k2', resource: [server.url] });
  const bridge = switchboard.bridge(server.url);
  assert.equal((await bridge.whoami()).sub, 'ada');
  await bridge.close();
  const { registrations, sign_ins: signIns } = await again.counts();
  assert.deepEqual({ registrations, signIns, tabs: switchboard.tabs().length }, { registrations: 1, signIns: 1, tabs: 2 });
});

// wire: OC-34
scenario('deny: a person who refuses ends the login with the reason, and nothing is asked again', 60_000, async (bed, open) => {
  const provider = await bed.provider();
  const server = await bed.protected(provider);
  const switchboard = open('deny');
  const { code, err } = await switchboard.run(['login', server.url]);
  assert.ok(code !== 0 && code !== 'late', `ended with ${code}`);
  assert.match(err, /access_denied/);
  assert.equal((await provider.counts()).token_requests, 0);
  assert.equal(switchboard.tabs().length, 1);
});

// wire: OC-33, OC-38
scenario('Chromium: a real browser signs in, and the page at the end needs no script', 60_000, async (bed, open) => {
  const provider = await bed.provider();
  const server = await bed.protected(provider);
  const switchboard = open('recorder');
  const { handle, said } = switchboard.start(['login', server.url]);
  const { url } = await until(() => switchboard.tabs()[0], 'the tab');
  const page = await chromium.visit(url, { script: false });
  assert.equal(page.status, 200);
  assert.ok(page.text.trim(), 'the last page says something');
  await handle.ended;
  assert.equal(handle.code, 0, said.err.join('\n'));
  assert.equal((await switchboard.whoami(server.url)).sub, 'ada');
});

/** Waits until something listens where the tab will go back to. */
async function listening(page) {
  const { port, hostname } = new URL(new URL(page).searchParams.get('redirect_uri'));
  const open = () => new Promise((resolve) => {
    const socket = net.connect(Number(port), hostname.replace(/[[\]]/g, ''));
    socket.on('connect', () => (socket.destroy(), resolve(true)));
    socket.on('error', () => resolve(false));
  });
  await until(open, 'a listener at the callback');
}

function isGone(pid) {
  try {
    return !process.kill(pid, 0);
  } catch {
    return true;
  }
}

/** Bridges for one URL at once; with `kill` the one that opened the tab dies before the person is done. */
async function together(bed, open, kill) {
  const provider = await bed.provider(LONG);
  const server = await bed.protected(provider);
  const switchboard = open('recorder');
  const bridges = Array.from({ length: MANY }, () => switchboard.bridge(server.url));
  try {
    const tab = await until(() => switchboard.tabs()[0], 'the tab');
    let left = bridges;
    if (kill) {
      const owner = bridges.find((bridge) => bridge.pid() === tab.parent);
      assert.ok(owner, `the tab was opened by ${tab.parent}, which is none of the bridges`);
      process.kill(tab.parent, 'SIGKILL');
      await until(() => isGone(tab.parent), 'the end of the killed bridge');
      left = bridges.filter((bridge) => bridge !== owner);
    }
    await listening(tab.url);
    assert.equal((await visit(tab.url)).status, 200);
    const said = await Promise.all(left.map((bridge) => bridge.whoami()));
    assert.deepEqual(said.map(({ sub }) => sub), left.map(() => 'ada'));
    const { registrations, authorizations, sign_ins: signIns, grants } = await provider.counts();
    const seen = { tabs: switchboard.tabs().length, registrations, authorizations, signIns, codes: grants.authorization_code };
    assert.deepEqual(seen, { tabs: 1, registrations: 1, authorizations: 1, signIns: 1, codes: 1 });
  } finally {
    await Promise.all(bridges.map((bridge) => bridge.close()));
  }
}

// wire: OC-38, OT-7
scenario('ten bridges at once: one tab, one registration, one sign-in', 90_000, (bed, open) => together(bed, open, false));

// wire: OT-5, OT-7
scenario('ten bridges at once, the first killed: the sign-in still completes in its tab', 90_000, (bed, open) => together(bed, open, true));

// wire: OC-44, OC-45, OT-6
scenario('ten processes renew at once: one token request a round, none refused', 15 * 60_000, async (bed, open, { rounds }) => {
  const provider = await bed.provider(LONG);
  const server = await bed.protected(provider);
  const switchboard = open();
  await switchboard.must(['login', server.url]);
  for (let round = 1; round <= rounds; round += 1) {
    const { authorization: old } = await switchboard.whoami(server.url);
    await server.refuse(old);
    const said = await Promise.all(Array.from({ length: MANY }, () => switchboard.whoami(server.url)));
    assert.equal(new Set(said.map(({ authorization }) => authorization)).size, 1, `round ${round}: all use one new token`);
    const { refreshes, sign_ins: signIns, errors } = await provider.counts();
    assert.deepEqual({ refreshes, signIns, errors }, { refreshes: round, signIns: 1, errors: {} });
  }
});

users(scenario);
