// Shows that the test bed itself is right, with the OAuth client of the official TypeScript SDKs:
// provider, person (with and without Chromium) and protected server. `node --test peers/oauth/*.test.mjs`

import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { test } from 'node:test';
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { Bed, GATE_CLIENT } from './lib/bed.mjs';
import { visit } from './person.mjs';
import * as chromium from './chromium.mjs';

const TIMEOUT = { timeout: 60_000 };
const CHROMIUM = fs.existsSync(process.env.CHROMIUM ?? '/usr/bin/chromium');

/** Runs `work` with a bed of its own. */
const bedTest = (name, work, options = {}) =>
  test(name, { ...TIMEOUT, ...options }, async (t) => {
    const bed = new Bed();
    t.after(() => bed.close());
    await work(bed, t);
  });

/** A callback listener that keeps the last query. */
async function listener(t) {
  const seen = {};
  const server = http.createServer((req, res) => {
    seen.params = new URL(req.url, 'http://127.0.0.1').searchParams;
    res.end('<p>Done.</p>');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => (server.closeAllConnections(), server.close()));
  return { seen, url: `http://127.0.0.1:${server.address().port}/callback` };
}

/** What the SDKs ask of an application that signs in; everything is kept in memory. */
function application(callback, open, given = {}) {
  const kept = { ...given };
  return {
    kept,
    redirectUrl: callback.url,
    clientMetadataUrl: given.clientMetadataUrl,
    clientMetadata: {
      client_name: 'Bed', redirect_uris: [callback.url], application_type: 'native',
      grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
      token_endpoint_auth_method: 'none', scope: given.scope,
    },
    clientInformation: () => kept.client,
    saveClientInformation: (client) => (kept.client = client),
    tokens: () => kept.tokens,
    saveTokens: (tokens) => (kept.tokens = tokens),
    redirectToAuthorization: async (url) => (kept.page = await open(url)),
    saveCodeVerifier: (verifier) => (kept.verifier = verifier),
    codeVerifier: () => kept.verifier,
  };
}

async function connected(url, callback, authProvider, options = {}) {
  const make = () => new StreamableHTTPClientTransport(new URL(url), { authProvider });
  const client = () => new Client({ name: 'bed', version: '1' }, options);
  const first = make();
  try {
    const one = client();
    await one.connect(first);
    return one;
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
  }
  await first.finishAuth(callback.seen.params);
  const second = client();
  await second.connect(make());
  return second;
}

const saying = (result) => result.content[0].text;
const whoami = async (client) => JSON.parse(saying(await client.callTool({ name: 'whoami', arguments: {} })));
const hashOf = (token) => createHash('sha256').update(token).digest('hex');

bedTest('the SDK registers, signs in and calls; each is counted once', async (bed, t) => {
  const provider = await bed.provider();
  const server = await bed.protected(provider);
  const callback = await listener(t);
  const app = application(callback, (url) => visit(url));
  const client = await connected(server.url, callback, app);
  const said = await whoami(client);
  assert.equal(said.sub, 'ada');
  assert.deepEqual(said.scopes, ['mcp:read']);
  assert.equal(said.authorization, hashOf(app.kept.tokens.access_token));
  await client.close();
  const counts = await provider.counts();
  assert.equal(counts.registrations, 1);
  assert.equal(counts.authorizations, 1);
  assert.equal(counts.sign_ins, 1);
  assert.deepEqual(counts.grants, { authorization_code: 1 });
  assert.equal(app.kept.page.status, 200);
  assert.ok(callback.seen.params.get('iss') === provider.issuer);
});

bedTest('the SDK of the modern era is served too', async (bed, t) => {
  const provider = await bed.provider();
  const server = await bed.protected(provider);
  const callback = await listener(t);
  const app = application(callback, (url) => visit(url, { user: 'eve' }));
  const client = await connected(server.url, callback, app, { versionNegotiation: { mode: 'auto' } });
  assert.equal((await whoami(client)).sub, 'eve');
  await client.close();
});

bedTest('the older SDK signs in as well', async (bed, t) => {
  const provider = await bed.provider();
  const server = await bed.protected(provider);
  const callback = await listener(t);
  const authProvider = application(callback, (url) => visit(url));
  const first = new OldTransport(new URL(server.url), { authProvider });
  await assert.rejects(new OldClient({ name: 'bed', version: '1' }).connect(first), /Unauthorized/);
  await first.finishAuth(callback.seen.params.get('code'));
  const client = new OldClient({ name: 'bed', version: '1' });
  await client.connect(new OldTransport(new URL(server.url), { authProvider }));
  assert.equal((await whoami(client)).sub, 'ada');
  await client.close();
});

bedTest('a tool that needs more scope is challenged, and the SDK steps up', async (bed, t) => {
  const provider = await bed.provider();
  const server = await bed.protected(provider);
  const callback = await listener(t);
  const app = application(callback, (url) => visit(url));
  const client = await connected(server.url, callback, app);
  await assert.rejects(client.callTool({ name: 'write', arguments: {} }));
  await client.close();
  const counts = await server.counts();
  assert.equal(counts.forbidden, 1);
  assert.equal((await provider.counts()).authorizations, 2);
});

bedTest('a person who refuses sends the client an error and no code', async (bed, t) => {
  const provider = await bed.provider();
  const server = await bed.protected(provider);
  const callback = await listener(t);
  const app = application(callback, (url) => visit(url, { deny: true }));
  const transport = new StreamableHTTPClientTransport(new URL(server.url), { authProvider: app });
  await assert.rejects(new Client({ name: 'bed', version: '1' }).connect(transport));
  assert.equal(callback.seen.params.get('error'), 'access_denied');
  assert.equal((await provider.counts()).token_requests, 0);
});

bedTest('Chromium signs in with other hosts cut off, and leaves pictures', async (bed, t) => {
  const provider = await bed.provider();
  const server = await bed.protected(provider);
  const callback = await listener(t);
  const app = application(callback, (url) => chromium.visit(url.href, { screenshots: bed.place }));
  const client = await connected(server.url, callback, app);
  assert.equal((await whoami(client)).sub, 'ada');
  await client.close();
  assert.equal(app.kept.page.status, 200);
  assert.equal(app.kept.page.text.trim(), 'Done.');
  assert.ok(fs.existsSync(bed.file('page-3.png')), 'login, consent and callback are three pages');
}, { skip: CHROMIUM ? false : 'there is no Chromium' });

bedTest('Chromium refuses, without script', async (bed, t) => {
  const provider = await bed.provider();
  const server = await bed.protected(provider);
  const callback = await listener(t);
  const app = application(callback, (url) => chromium.visit(url.href, { deny: true, script: false }));
  const transport = new StreamableHTTPClientTransport(new URL(server.url), { authProvider: app });
  await assert.rejects(new Client({ name: 'bed', version: '1' }).connect(transport));
  assert.equal(callback.seen.params.get('error'), 'access_denied');
}, { skip: CHROMIUM ? false : 'there is no Chromium' });

bedTest('refresh tokens rotate, and one that is used twice ends its family', async (bed, t) => {
  const provider = await bed.provider();
  const server = await bed.protected(provider);
  const callback = await listener(t);
  const app = application(callback, (url) => {
    url.searchParams.set('scope', 'mcp:read offline_access');
    url.searchParams.set('prompt', 'consent');
    return visit(url);
  });
  await (await connected(server.url, callback, app)).close();
  const first = app.kept.tokens.refresh_token;
  const refresh = async (token) => {
    const body = new URLSearchParams({ grant_type: 'refresh_token', refresh_token: token, client_id: app.kept.client.client_id, resource: server.url });
    return (await fetch(`${provider.issuer}/token`, { method: 'POST', body })).json();
  };
  const second = await refresh(first);
  assert.ok(second.refresh_token && second.refresh_token !== first);
  assert.equal((await refresh(first)).error, 'invalid_grant');
  assert.equal((await refresh(second.refresh_token)).error, 'invalid_grant');
  const counts = await provider.counts();
  assert.equal(counts.refreshes, 3);
  assert.equal(counts.errors.invalid_grant, 2);
});

bedTest('opaque tokens pass by introspection, for their own resource alone', async (bed, t) => {
  const provider = await bed.provider({ opaque: true, clients: [GATE_CLIENT] });
  const [server, other] = [await bed.protected(provider, { opaque: true }), await bed.protected(provider, { opaque: true })];
  const callback = await listener(t);
  const app = application(callback, (url) => visit(url));
  const client = await connected(server.url, callback, app);
  assert.equal((await whoami(client)).sub, 'ada');
  await client.close();
  const headers = { authorization: `Bearer ${app.kept.tokens.access_token}` };
  assert.equal((await fetch(other.url, { method: 'POST', headers, body: '{}' })).status, 401);
  assert.ok((await provider.counts()).introspections > 1);
});

bedTest('a client metadata document is read where the test serves it', async (bed, t) => {
  const id = 'https://client.test/client.json';
  const documents = {};
  const site = await bed.documents(documents);
  const provider = await bed.provider({ 'cimd-at': site.origin });
  const server = await bed.protected(provider);
  const callback = await listener(t);
  const redirect = new URL(callback.url);
  redirect.port = '';
  documents['/client.json'] = {
    client_id: id, client_name: 'Bed', redirect_uris: [redirect.href], application_type: 'native', token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
  };
  const app = application(callback, (url) => visit(url), { clientMetadataUrl: id });
  const client = await connected(server.url, callback, app);
  assert.equal((await whoami(client)).client_id, id);
  await client.close();
  assert.equal((await provider.counts()).registrations, 0);
});

/** Posts a form to the token endpoint, as a client with a secret in the body. */
async function tokenOf(provider, form, headers = {}) {
  const response = await fetch(`${provider.issuer}/token`, { method: 'POST', headers, body: new URLSearchParams(form) });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

const toolCall = (name) => JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: {} } });

async function callBare(url, authorization, extra = {}) {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', authorization, ...extra };
  const response = await fetch(url, { method: 'POST', headers, body: toolCall('whoami') });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

bedTest('an ID token becomes an ID-JAG, and that an access token, once', async (bed, t) => {
  const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
  const BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
  const callback = await listener(t);
  const desk = {
    client_id: 'desk', client_secret: 'desk-secret', token_endpoint_auth_method: 'client_secret_post',
    redirect_uris: [callback.url], grant_types: ['authorization_code', EXCHANGE],
  };
  const idp = await bed.provider({ exchange: true, clients: [desk], 'client-ids': { desk: 'desk-at-as' } });
  const asClient = {
    client_id: 'desk-at-as', client_secret: 's', token_endpoint_auth_method: 'client_secret_post', redirect_uris: [], response_types: [], grant_types: [BEARER],
  };
  const provider = await bed.provider({ 'trust-idp': idp.issuer, clients: [asClient] });
  const server = await bed.protected(provider);
  const verifier = randomBytes(32).toString('base64url');
  const url = new URL(`${idp.issuer}/auth`);
  url.search = new URLSearchParams({
    client_id: 'desk', response_type: 'code', redirect_uri: callback.url, scope: 'openid', state: 's',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256',
  });
  await visit(url);
  const secret = { client_id: 'desk', client_secret: 'desk-secret' };
  const code = callback.seen.params.get('code');
  const signedIn = await tokenOf(idp, { grant_type: 'authorization_code', code, redirect_uri: callback.url, code_verifier: verifier, ...secret });
  const jag = await tokenOf(idp, {
    grant_type: EXCHANGE, requested_token_type: 'urn:ietf:params:oauth:token-type:id-jag', audience: provider.issuer, resource: server.url,
    scope: 'mcp:read', subject_token: signedIn.body.id_token, subject_token_type: 'urn:ietf:params:oauth:token-type:id_token', ...secret,
  });
  assert.equal(jag.body.token_type, 'N_A', JSON.stringify(jag.body));
  const assertion = { grant_type: BEARER, assertion: jag.body.access_token, client_id: 'desk-at-as', client_secret: 's' };
  const token = await tokenOf(provider, assertion);
  assert.equal(token.status, 200, JSON.stringify(token.body));
  assert.match((await callBare(server.url, `Bearer ${token.body.access_token}`)).text, /ada/);
  assert.equal((await tokenOf(provider, assertion)).body.error, 'invalid_grant');
  assert.equal((await provider.counts()).authorizations, 0);
});

bedTest('client credentials by private_key_jwt, then an exchange for another resource', async (bed) => {
  const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), kid: 'c1', alg: 'ES256', use: 'sig' };
  const batch = {
    client_id: 'batch', token_endpoint_auth_method: 'private_key_jwt', jwks: { keys: [jwk] }, redirect_uris: [], response_types: [],
    grant_types: ['client_credentials', EXCHANGE],
  };
  const provider = await bed.provider({ exchange: true, clients: [batch] });
  const [server, other] = [await bed.protected(provider), await bed.protected(provider)];
  const sign = () => new SignJWT({}).setProtectedHeader({ alg: 'ES256', kid: 'c1' }).setIssuer('batch').setSubject('batch')
    .setAudience(provider.issuer).setJti(randomBytes(8).toString('hex')).setIssuedAt().setExpirationTime('60s').sign(privateKey);
  const auth = async () => ({
    client_id: 'batch', client_assertion: await sign(), client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
  });
  const token = await tokenOf(provider, { grant_type: 'client_credentials', resource: server.url, scope: 'mcp:read', ...(await auth()) });
  assert.equal(token.status, 200, JSON.stringify(token.body));
  const bearer = `Bearer ${token.body.access_token}`;
  assert.equal((await callBare(server.url, bearer)).status, 200);
  assert.equal((await callBare(other.url, bearer)).status, 401);
  const swapped = await tokenOf(provider, {
    grant_type: EXCHANGE, subject_token: token.body.access_token, subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    resource: other.url, ...(await auth()),
  });
  assert.equal((await callBare(other.url, `Bearer ${swapped.body.access_token}`)).status, 200, JSON.stringify(swapped.body));
});

bedTest('DPoP: both servers ask for a nonce, and a proof counts once', async (bed) => {
  const client = { client_id: 'dpop', client_secret: 's', token_endpoint_auth_method: 'client_secret_post', redirect_uris: [], response_types: [], grant_types: ['client_credentials'] };
  const provider = await bed.provider({ nonce: true, clients: [client] });
  const server = await bed.protected(provider, { nonce: true, 'dpop-only': true });
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
  const jwk = await exportJWK(publicKey);
  const proof = (htm, htu, more) => new SignJWT({ htm, htu, ...more }).setProtectedHeader({ alg: 'ES256', typ: 'dpop+jwt', jwk })
    .setJti(randomBytes(8).toString('hex')).setIssuedAt().sign(privateKey);
  const form = { grant_type: 'client_credentials', resource: server.url, scope: 'mcp:read', client_id: 'dpop', client_secret: 's' };
  const at = `${provider.issuer}/token`;
  const asked = await tokenOf(provider, form, { dpop: await proof('POST', at) });
  assert.equal(asked.body.error, 'use_dpop_nonce');
  const token = await tokenOf(provider, form, { dpop: await proof('POST', at, { nonce: asked.headers.get('dpop-nonce') }) });
  assert.equal(token.body.token_type, 'DPoP', JSON.stringify(token.body));
  const ath = createHash('sha256').update(token.body.access_token).digest('base64url');
  const first = await callBare(server.url, `DPoP ${token.body.access_token}`, { dpop: await proof('POST', server.url, { ath }) });
  assert.match(first.headers.get('www-authenticate'), /^DPoP .*use_dpop_nonce/);
  const good = await proof('POST', server.url, { ath, nonce: first.headers.get('dpop-nonce') });
  assert.equal((await callBare(server.url, `DPoP ${token.body.access_token}`, { dpop: good })).status, 200);
  assert.equal((await callBare(server.url, `DPoP ${token.body.access_token}`, { dpop: good })).status, 401);
  assert.equal((await callBare(server.url, `Bearer ${token.body.access_token}`)).status, 401);
});

bedTest('the device flow: a person types nothing and consents', async (bed) => {
  const client = {
    client_id: 'tv', token_endpoint_auth_method: 'none', redirect_uris: [], response_types: [], application_type: 'native',
    grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'],
  };
  const provider = await bed.provider({ clients: [client] });
  const server = await bed.protected(provider);
  const body = new URLSearchParams({ client_id: 'tv', scope: 'mcp:read', resource: server.url });
  const device = await (await fetch(`${provider.issuer}/device/auth`, { method: 'POST', body })).json();
  const form = { grant_type: 'urn:ietf:params:oauth:grant-type:device_code', device_code: device.device_code, client_id: 'tv', resource: server.url };
  assert.equal((await tokenOf(provider, form)).body.error, 'authorization_pending');
  assert.equal((await visit(device.verification_uri_complete)).status, 200);
  const token = await tokenOf(provider, form);
  assert.match((await callBare(server.url, `Bearer ${token.body.access_token}`)).text, /ada/, JSON.stringify(token.body));
});
