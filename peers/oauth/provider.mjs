#!/usr/bin/env node
// An authorization server for tests: oidc-provider, configured for MCP (README.md says how).
// Prints `ready ISSUER`. Keys and records are in memory: a new start on the same port forgets every client.

import http from 'node:http';
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { exportJWK, generateKeyPair } from 'jose';
import Provider, { errors } from 'oidc-provider';
import { admin, Counts } from './lib/counts.mjs';
import { ID_JAG_PROFILE, registerExchange, registerJwtBearer } from './lib/grants.mjs';

const SCOPES = 'mcp:read mcp:write';
const DEFAULT_SCOPE = 'mcp:read';
const MANY_SECONDS = 3600;

const flag = (name) => ({ type: 'boolean', default: process.env[name] === '1' });
const text = (name, other) => ({ type: 'string', default: process.env[name] ?? other });

const { values: options } = parseArgs({
  options: {
    port: text('PORT', '0'),
    resource: { type: 'string', multiple: true, default: process.env.RESOURCES?.split(' ') ?? [] },
    ttl: text('TTL', '60'),
    'refresh-ttl': text('REFRESH_TTL', `${MANY_SECONDS}`),
    clients: text('CLIENTS', '[]'),
    opaque: flag('OPAQUE'),
    nonce: flag('NONCE'),
    'cimd-at': text('CIMD_AT'),
    kid: text('KID', 'k1'),
    'no-registration': flag('NO_REGISTRATION'),
    'no-cimd': flag('NO_CIMD'),
    par: flag('PAR'),
    exchange: flag('EXCHANGE'),
    'trust-idp': text('TRUST_IDP'),
    'client-ids': text('CLIENT_IDS', '{}'),
  },
});

const resources = new Set(options.resource);
const ttl = Number(options.ttl);

function resourceServer(resource) {
  if (!resources.has(resource)) throw new errors.InvalidTarget();
  return {
    scope: SCOPES,
    audience: resource,
    accessTokenTTL: ttl,
    accessTokenFormat: options.opaque ? 'opaque' : 'jwt',
    jwt: { sign: { alg: 'ES256' } },
  };
}

/** Client metadata documents have https URLs off loopback. A test serves them at `--cimd-at` instead. */
function fetchDocument(url, { dispatcher, ...init }) {
  const at = options['cimd-at'];
  return at ? fetch(String(url).replace(/^https:\/\/[^/]+/, at), init) : fetch(url, { dispatcher, ...init });
}

async function configuration(issuer) {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  const key = { ...(await exportJWK(privateKey)), use: 'sig', alg: 'ES256', kid: options.kid };
  const settings = {
    jwks: { keys: [key] },
    clients: JSON.parse(options.clients),
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'],
    // Clients that send a scope when they register may name those of the resources too.
    scopes: ['openid', 'offline_access', ...SCOPES.split(' ')],
    pkce: { required: () => true },
    rotateRefreshToken: true,
    findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
    fetch: fetchDocument,
    discovery: options['trust-idp'] ? { authorization_grant_profiles_supported: [ID_JAG_PROFILE] } : {},
    ttl: {
      AccessToken: ttl,
      AuthorizationCode: 60,
      ClientCredentials: ttl,
      DeviceCode: 120,
      Grant: MANY_SECONDS,
      IdToken: 600,
      Interaction: 600,
      RefreshToken: Number(options['refresh-ttl']),
      Session: MANY_SECONDS,
    },
    features: {
      clientCredentials: { enabled: true },
      clientIdMetadataDocument: { enabled: !options['no-cimd'], ack: options['no-cimd'] ? undefined : 'draft-02' },
      deviceFlow: { enabled: true },
      devInteractions: { enabled: true },
      dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 7), requireNonce: () => options.nonce },
      introspection: { enabled: true, allowedPolicy: () => true },
      pushedAuthorizationRequests: { enabled: true, requirePushedAuthorizationRequests: options.par },
      registration: { enabled: !options['no-registration'] },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => resourceServer(resource),
      },
      revocation: { enabled: true, allowedPolicy: (_, client, token) => token.clientId === client.clientId },
    },
  };
  const own = { issuer, privateKey, kid: options.kid, resourceServer, clientIds: JSON.parse(options['client-ids']) };
  return { settings, own };
}

const server = http.createServer();
server.listen(Number(options.port), '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${server.address().port}`;
const { settings, own } = await configuration(issuer);
const provider = new Provider(issuer, settings);
const counts = new Counts();
// RFC 6749, 3.3: a request without a scope gets a default one; the provider would refuse it.
provider.use((ctx, next) => {
  const { scope, request_uri: pushed } = ctx.query;
  if (ctx.path === '/auth' && !scope && !pushed) ctx.query = { ...ctx.query, scope: DEFAULT_SCOPE };
  return next();
});
provider.use((ctx, next) => counts.around(ctx, next));
if (options.exchange) registerExchange(provider, own);
if (options['trust-idp']) registerJwtBearer(provider, own, options['trust-idp']);

const answer = provider.callback();
const adminAnswer = admin({
  '/admin/counts': () => counts.all,
  '/admin/resources': (uri) => resources.add(uri),
  '/admin/secrets': () => [...counts.secrets],
});
server.on('request', (req, res) => adminAnswer(req, res) || answer(req, res));
process.on('SIGTERM', () => process.exit(0));
console.log(`ready ${issuer}`);
