// Grants that oidc-provider leaves to its users: token exchange (RFC 8693) and JWT assertions (RFC 7523).
// Together they are enterprise-managed authorization: the identity provider exchanges an ID token for an
// ID-JAG, and the authorization server exchanges the ID-JAG for an access token.

import { randomUUID } from 'node:crypto';
import { createRemoteJWKSet, jwtVerify, SignJWT } from 'jose';
import { errors } from 'oidc-provider';

export const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
export const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
export const ID_JAG_PROFILE = 'urn:ietf:params:oauth:grant-profile:id-jag';
const TYPE = 'urn:ietf:params:oauth:token-type';
const ID_JAG_TYP = 'oauth-id-jag+jwt';
const ID_JAG_SECONDS = 300;
const EXCHANGE_PARAMS = [
  'actor_token', 'actor_token_type', 'audience', 'requested_token_type', 'resource', 'scope', 'subject_token', 'subject_token_type',
];

async function verified(token, keys, checks) {
  try {
    return (await jwtVerify(token, keys, { algorithms: ['ES256'], ...checks })).payload;
  } catch (error) {
    throw new errors.InvalidGrant(error.message);
  }
}

/** An access token for `sub` at `resource`, with the scopes that the resource has. */
async function accessToken(provider, ctx, { sub, resource, scope, resourceServer }) {
  const known = resourceServer(resource);
  const offered = known.scope.split(' ');
  const granted = (scope ?? known.scope).split(' ').filter((one) => offered.includes(one)).join(' ');
  const token = new provider.AccessToken({
    accountId: sub,
    client: ctx.oidc.client,
    expiresIn: known.accessTokenTTL,
    gty: ctx.oidc.params.grant_type.split(':').at(-1),
    scope: granted,
  });
  token.resourceServer = new provider.ResourceServer(resource, known);
  const value = await token.save();
  return { access_token: value, token_type: 'Bearer', expires_in: token.expiration, scope: granted };
}

/** An ID-JAG for the client's id at the other authorization server, which may be another than its id here. */
async function idJag({ issuer, privateKey, kid, clientIds }, ctx, sub) {
  const { audience, resource, scope } = ctx.oidc.params;
  if (!audience || !resource) throw new errors.InvalidRequest('audience and resource are needed for an ID-JAG');
  const here = ctx.oidc.client.clientId;
  const claims = { client_id: clientIds[here] ?? here, resource, ...(scope && { scope }) };
  const token = await new SignJWT(claims)
    .setProtectedHeader({ alg: 'ES256', typ: ID_JAG_TYP, kid })
    .setIssuer(issuer)
    .setSubject(sub)
    .setAudience(audience)
    .setJti(randomUUID())
    .setIssuedAt()
    .setExpirationTime(`${ID_JAG_SECONDS}s`)
    .sign(privateKey);
  return { access_token: token, issued_token_type: `${TYPE}:id-jag`, token_type: 'N_A', expires_in: ID_JAG_SECONDS, ...(scope && { scope }) };
}

/** Token exchange: an ID token of ours for an ID-JAG, or an access token of ours for one of another resource. */
export function registerExchange(provider, own) {
  const keys = createRemoteJWKSet(new URL(`${own.issuer}/jwks`));
  const handler = async (ctx) => {
    const { subject_token: token, subject_token_type: type, requested_token_type: wanted, resource, scope } = ctx.oidc.params;
    if (type === `${TYPE}:id_token` && wanted === `${TYPE}:id-jag`) {
      const { sub } = await verified(token, keys, { issuer: own.issuer, audience: ctx.oidc.client.clientId });
      ctx.body = await idJag(own, ctx, sub);
    } else if (type === `${TYPE}:access_token` && (!wanted || wanted === type)) {
      const { sub } = await verified(token, keys, { issuer: own.issuer, typ: 'at+jwt' });
      const { resourceServer } = own;
      ctx.body = await accessToken(provider, ctx, { sub, resource: resource ?? ctx.oidc.params.audience, scope, resourceServer });
      ctx.body.issued_token_type = `${TYPE}:access_token`;
    } else {
      throw new errors.InvalidRequest(`no exchange of ${type} for ${wanted}`);
    }
  };
  provider.registerGrantType(EXCHANGE, handler, EXCHANGE_PARAMS, []);
}

/** JWT assertions: an ID-JAG of the trusted identity provider for an access token, each one once. */
export function registerJwtBearer(provider, own, idp) {
  const keys = createRemoteJWKSet(new URL(`${idp}/jwks`));
  const used = new Set();
  const handler = async (ctx) => {
    const { assertion, scope } = ctx.oidc.params;
    const claims = await verified(assertion, keys, { issuer: idp, audience: own.issuer, typ: ID_JAG_TYP });
    if (claims.client_id !== ctx.oidc.client.clientId) throw new errors.InvalidGrant('the ID-JAG is for another client');
    if (!claims.jti || used.has(claims.jti)) throw new errors.InvalidGrant('the ID-JAG was used before');
    used.add(claims.jti);
    const { resourceServer } = own;
    ctx.body = await accessToken(provider, ctx, { sub: claims.sub, resource: claims.resource, scope: scope ?? claims.scope, resourceServer });
  };
  provider.registerGrantType(JWT_BEARER, handler, ['assertion', 'resource', 'scope'], []);
}
