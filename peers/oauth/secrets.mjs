// Secrets stay where they belong: everything that a run at `--log-level trace` leaves behind is searched for them.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { exportJWK, exportPKCS8, generateKeyPair } from 'jose';
import { serve } from './lib/gateway.mjs';
import { seen } from './lib/processes-seen.mjs';
import { sdkClient } from './lib/sdk-client.mjs';
import { REDIRECTS, until } from './lib/switchboard.mjs';

const TRACE = ['--log-level', 'trace'];
const ADMIN_KEY = 'sb-marked-admin-key-71c4e09b';
const CLIENT_SECRET = 'marked client secret+&% 5b0d';
const WRONG_SECRET = 'marked-wrong-secret-93aa17';
const BAD_TOKEN = 'marked-bad-token-0f1e2d3c4b5a6978';

export const flows = [];
const scenario = (name, ms, work) => flows.push({ name, ms, work });

/** The forms in which a secret could be written down. A JWT is one by its signature alone, too. */
function forms(secret, word) {
  const encoded = [secret, encodeURIComponent(secret), new URLSearchParams({ _: secret }).toString().slice(2), JSON.stringify(secret).slice(1, -1)];
  const basic = ['desk', 'batch'].map((id) => Buffer.from(`${id}:${encodeURIComponent(secret)}`).toString('base64'));
  const bytes = Buffer.from(secret);
  const signature = /^[\w-]+\.[\w-]+\.([\w-]{20,})$/.exec(secret)?.[1];
  const all = [...encoded, ...basic, bytes.toString('base64'), bytes.toString('base64url'), bytes.toString('hex'), signature];
  return [...new Set(all.filter(Boolean))].map((form) => ({ word, form }));
}

/** All files below a folder, as texts in which every byte is a character. */
function contents(folder) {
  const found = fs.readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return found.map((entry) => path.join(entry.parentPath ?? entry.path, entry.name)).map((file) => [file, fs.readFileSync(file, 'latin1')]);
}

/** A provider with a client for people and one for programs, a protected server, and their secrets. */
async function scene(bed, open) {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
  const jwks = { keys: [{ ...(await exportJWK(publicKey)), kid: 'c1', alg: 'ES256', use: 'sig' }] };
  const pem = await exportPKCS8(privateKey);
  const desk = {
    client_id: 'desk', client_secret: CLIENT_SECRET, token_endpoint_auth_method: 'client_secret_basic', application_type: 'native',
    redirect_uris: REDIRECTS, response_types: ['code'], grant_types: ['authorization_code', 'refresh_token'],
  };
  const batch = {
    client_id: 'batch', token_endpoint_auth_method: 'private_key_jwt', redirect_uris: [], response_types: [], grant_types: ['client_credentials'], jwks,
  };
  const provider = await bed.provider({ ttl: '3600', clients: [desk, batch] });
  const upstream = await bed.protected(provider);
  const other = await bed.protected(provider);
  const third = await bed.protected(provider);
  const switchboard = open();
  // The browser tells what it was given before it is one.
  const noted = bed.file('browser-seen', '');
  const script = `#!/bin/sh\n{ env; printf '%s\\n' "$@"; tr '\\0' '\\n' </proc/$PPID/cmdline; } >>'${noted}'\nexec '${switchboard.env.BROWSER}' "$1"\n`;
  switchboard.env = { ...switchboard.env, BROWSER: bed.file('noting-browser', script, 0o700), DESK_SECRET: CLIENT_SECRET, WRONG_SECRET, ADMIN_KEY };
  const config = {
    mcpServers: {
      it: { url: upstream.url, oauth: { account: 'shared', clientId: 'desk', clientSecret: '${DESK_SECRET}', dpop: true } },
      batch: { url: other.url, oauth: { grant: 'client-credentials', clientId: 'batch', privateKeyFile: bed.file('key.pem', pem) } },
      wrong: { url: third.url, oauth: { account: 'shared', clientId: 'desk', clientSecret: '${WRONG_SECRET}' } },
    },
  };
  const given = [
    ['the key of the store', switchboard.env.SWITCHBOARD_STORE_KEY], ['the secret of the client', CLIENT_SECRET], ['a wrong secret', WRONG_SECRET],
    ['the private key', pem.split('\n')[1]], ['a bad token', BAD_TOKEN], ['the key of the gateway', ADMIN_KEY],
  ];
  return { provider, upstream, other, switchboard, config, noted, given };
}

/** Signs in, calls, renews, is refused, and signs out; gives all that was printed. */
async function onTheCommandLine(bed, { switchboard, upstream, config }) {
  const file = bed.file('servers.json', JSON.stringify(config));
  const from = ['--config', file];
  const said = [];
  const run = async (args, expected = 0) => {
    const { code, out, err } = await switchboard.run([...TRACE, ...args]);
    said.push(`${out}\n${err}`);
    assert.equal(code === 0, expected === 0, `switchboard ${args.join(' ')} ended with ${code}: ${err.slice(-600)}`);
    return out;
  };
  const whoami = async (name) => JSON.parse(JSON.parse(await run(['call', name, 'whoami', '-o', 'json', ...from])).content[0].text);
  await run(['login', 'it', ...from]);
  await upstream.refuse((await whoami('it')).authorization);
  await whoami('it');
  assert.equal((await whoami('batch')).client_id, 'batch');
  await run(['whoami', 'it', ...from]);
  await run(['auth', 'list']);
  await run(['auth', 'show', 'it', ...from]);
  await run(['login', 'wrong', ...from], 1);
  return said;
}

/** Asks with something that is no token; gives the whole answer. */
async function refusal(url, header) {
  const response = await fetch(url, { method: 'POST', body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}', headers: { ...header, 'content-type': 'application/json' } });
  assert.ok(response.status >= 400, `${JSON.stringify(header)} was let in`);
  return `${response.status} ${JSON.stringify([...response.headers])} ${await response.text()}`;
}

/** A gateway with clients that are let in and refused; gives all that was said and shown. */
async function atTheGateway(bed, { switchboard, provider, upstream, other, config }, binary) {
  const full = {
    mcpServers: { ...config.mcpServers, child: { command: binary, args: ['demo'] } },
    switchboard: { keys: { admin: { key: '${ADMIN_KEY}' } }, oauth: { issuers: { corp: { issuer: provider.issuer, grant: { servers: ['*'] } } } } },
  };
  const { url, handle, said } = await serve(bed, switchboard, binary, full, TRACE);
  await provider.allow(url);
  const { client, token } = await sdkClient(url);
  const { tools } = await client.listTools();
  const names = tools.map(({ name }) => name);
  for (const name of ['it__whoami', 'batch__whoami', 'child__echo']) assert.ok(names.includes(name), `${name} is not in ${names}`);
  const call = async (name, args = {}) => (await client.callTool({ name, arguments: args })).content[0].text;
  assert.equal(JSON.parse(await call('it__whoami')).sub, 'ada');
  // Refused upstream: renewed, and asked again.
  await other.refuse(JSON.parse(await call('batch__whoami')).authorization);
  const answers = [await call('batch__whoami'), await call('child__echo', { message: 'hello' })];
  const spoilt = token().replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'));
  const bearers = [BAD_TOKEN, spoilt, `${token()} ${token()}`].map((shown) => ({ authorization: `Bearer ${shown}` }));
  for (const header of [...bearers, { 'x-api-key': BAD_TOKEN }]) answers.push(await refusal(url, header));
  answers.push(await refusal(`${url}?access_token=${token()}`, {}));
  const shown = seen(handle.child.pid);
  assert.ok(shown.children.length > 0, 'the child is not running');
  for (const page of ['/status', '/metrics']) {
    const response = await fetch(new URL(page, url), { headers: { 'x-api-key': ADMIN_KEY } });
    assert.equal(response.status, 200);
    answers.push(await response.text());
  }
  // Without its authorization server, and with a token that is refused.
  const { authorization } = JSON.parse(await call('it__whoami'));
  await upstream.refuse(authorization);
  const secrets = await provider.secrets();
  await provider.end();
  answers.push(await client.callTool({ name: 'it__whoami', arguments: {} }).then(JSON.stringify, String));
  await client.close();
  handle.child.kill('SIGTERM');
  await until(() => handle.code !== undefined, 'the end of the gateway');
  return { answers, log: said.join('\n'), shown, secrets, spoilt };
}

// wire: OA-24, OC-42, OR-17, OR-20, OT-2, OT-8
scenario('secrets: no log, answer, page, process or file has one', 120_000, async (bed, open, { binary }) => {
  const all = await scene(bed, open);
  const said = await onTheCommandLine(bed, all);
  const { answers, log, shown, secrets, spoilt } = await atTheGateway(bed, all, binary);
  const places = [
    ...said.map((text) => ['what a command printed', text]),
    ['the log of the gateway', log],
    ...answers.map((text) => ['an answer of the gateway', text]),
    ['its command line', shown.argv],
    ...shown.children.map((text) => ['a child of the gateway', text]),
    ['the browser', fs.readFileSync(all.noted, 'utf8')],
    ...contents(all.switchboard.env.SWITCHBOARD_STATE_DIR),
  ];
  const marks = [...all.given, ['a spoilt token', spoilt], ...secrets.map(([value, word]) => [word, value])].flatMap(([word, value]) => forms(value, word));
  const words = new Set(marks.map(({ word }) => word));
  for (const word of ['access_token', 'client_assertion', 'code', 'code_verifier', 'refresh_token']) assert.ok(words.has(word), `no ${word} was seen`);
  assert.ok(log.includes('TRACE') || log.includes('trace'), 'the gateway logs everything');
  const hits = places.flatMap(([place, text]) => marks.filter(({ form }) => text.includes(form)).map(({ word }) => `${word} in ${place}`));
  assert.deepEqual([...new Set(hits)], []);
});
