// Who may come in at the protected server: challenge, token, audience, scope, DPoP proof.

import { createHash } from 'node:crypto';
import { calculateJwkThumbprint, createRemoteJWKSet, EmbeddedJWK, jwtVerify } from 'jose';

const WRITE = 'mcp:write';
const NONCE = 'resource-nonce-1';
const MOST_PROOFS = 100_000;
const sha256 = (text, form) => createHash('sha256').update(text).digest(form);

/** A request that is not let in: its status and the parameters of the challenge. */
class Refused extends Error {
  constructor(status, challenge = {}, scheme = 'Bearer', headers = {}) {
    super(challenge.error ?? 'no token');
    Object.assign(this, { status, challenge, scheme, headers });
  }
}

export class Gate {
  counts = { requests: 0, admitted: 0, unauthorized: 0, forbidden: 0, introspections: 0, subjects: {}, tokens: 0, tools: {} };
  #resource;
  #options;
  #issuers;
  #metadata = new Map();
  #proofs = new Set();
  #refused = new Set();
  #seen = new Set();

  constructor(resource, options) {
    this.#resource = resource;
    this.#options = options;
    this.#issuers = options.issuer;
    const url = new URL(resource);
    this.metadataPath = `/.well-known/oauth-protected-resource${url.pathname}`;
    this.metadataUrl = `${url.origin}${this.metadataPath}`;
  }

  metadata() {
    return {
      resource: this.#resource,
      authorization_servers: this.#issuers,
      ...(!this.#options['no-scopes-supported'] && { scopes_supported: this.#options.scope.split(' ') }),
      bearer_methods_supported: ['header'],
      resource_name: 'Protected test server',
    };
  }

  count(tool) {
    this.counts.tools[tool] = (this.counts.tools[tool] ?? 0) + 1;
  }

  /** From now on the token with this hash is a bad one. */
  refuse(hash) {
    this.#refused.add(hash);
  }

  /** What `whoami` says. */
  describe({ http }) {
    const { extra, clientId, scopes, expiresAt: exp } = http.authInfo;
    return JSON.stringify({ sub: extra.sub, client_id: clientId, scopes, exp, authorization: extra.authorization, scheme: extra.scheme });
  }

  /** The caller, or nothing after the request was refused. */
  async admit(req, res, body) {
    this.counts.requests += 1;
    try {
      const caller = await this.#caller(req, body);
      this.counts.admitted += 1;
      this.counts.subjects[caller.extra.sub] = (this.counts.subjects[caller.extra.sub] ?? 0) + 1;
      this.#seen.add(caller.extra.authorization);
      this.counts.tokens = this.#seen.size;
      return caller;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.#answer(res, error);
      return undefined;
    }
  }

  #answer(res, { status, challenge, scheme, headers }) {
    if (status === 401) this.counts.unauthorized += 1;
    if (status === 403) this.counts.forbidden += 1;
    const parts = {
      ...(!this.#options['no-challenge-url'] && { resource_metadata: this.metadataUrl }),
      scope: this.#options.scope,
      ...challenge,
    };
    const list = Object.entries(parts).map(([name, value]) => `${name}="${value}"`).join(', ');
    res.writeHead(status, { 'www-authenticate': `${scheme} ${list}`, 'content-type': 'application/json', ...headers });
    res.end(JSON.stringify({ error: challenge.error ?? 'unauthorized' }));
  }

  async #caller(req, body) {
    const scheme = this.#options['dpop-only'] ? 'DPoP' : 'Bearer';
    const sent = /^(Bearer|DPoP) +(\S+)$/i.exec(req.headers.authorization ?? '');
    if (!sent) throw new Refused(401, {}, scheme);
    const bad = (description) =>
      new Refused(401, { error: 'invalid_token', error_description: description }, scheme);
    const [, shown, token] = sent;
    const hash = sha256(token, 'hex');
    if (this.#refused.has(hash)) throw bad('the test refuses this token');
    const claims = await (this.#options.opaque ? this.#introspected(token, bad) : this.#verified(token, bad));
    if (claims.cnf?.jkt) await this.#proof(req, token, claims.cnf.jkt, bad);
    else if (scheme === 'DPoP' || /^dpop$/i.test(shown)) throw bad('the token is bound to no key');
    const scopes = (claims.scope ?? '').split(' ').filter(Boolean);
    const calls = [body].flat().some((one) => one?.method === 'tools/call' && one.params?.name === 'write');
    if (calls && !scopes.includes(WRITE)) {
      throw new Refused(403, { error: 'insufficient_scope', scope: `${this.#options.scope} ${WRITE}` }, scheme);
    }
    const extra = { sub: claims.sub ?? claims.client_id, authorization: hash, scheme: shown };
    return { token: hash, clientId: claims.client_id ?? '', scopes, expiresAt: claims.exp, extra };
  }

  async #metadataOf(issuer) {
    if (!this.#metadata.has(issuer)) {
      const response = await fetch(`${issuer}/.well-known/openid-configuration`);
      const found = await response.json();
      this.#metadata.set(issuer, { ...found, keys: createRemoteJWKSet(new URL(found.jwks_uri), { cooldownDuration: 0 }) });
    }
    return this.#metadata.get(issuer);
  }

  async #verified(token, bad) {
    for (const issuer of this.#issuers) {
      const { keys } = await this.#metadataOf(issuer);
      try {
        const checks = { issuer, audience: this.#resource, algorithms: ['ES256'], typ: 'at+jwt' };
        return (await jwtVerify(token, keys, checks)).payload;
      } catch (error) {
        if (issuer === this.#issuers.at(-1)) throw bad(error.code ?? 'the token is bad');
      }
    }
    throw bad('no issuer is known');
  }

  async #introspected(token, bad) {
    this.counts.introspections += 1;
    const { introspection_endpoint: url } = await this.#metadataOf(this.#issuers[0]);
    const response = await fetch(url, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(this.#options.introspect).toString('base64')}` },
      body: new URLSearchParams({ token }),
    });
    const found = await response.json();
    if (!found.active || found.aud !== this.#resource) throw bad('the token is not active here');
    return found;
  }

  /** RFC 9449, 4.3: the proof is of the key that the token is bound to, for this request, once. */
  async #proof(req, token, thumbprint, bad) {
    let proof;
    try {
      proof = await jwtVerify(req.headers.dpop ?? '', EmbeddedJWK, { typ: 'dpop+jwt', algorithms: ['ES256'], maxTokenAge: '60s' });
    } catch (error) {
      throw bad(`DPoP proof: ${error.code}`);
    }
    const { payload, protectedHeader } = proof;
    const right =
      payload.htm === req.method &&
      payload.htu === this.#resource &&
      payload.ath === sha256(token, 'base64url') &&
      (await calculateJwkThumbprint(protectedHeader.jwk)) === thumbprint;
    if (!right || !payload.jti || this.#proofs.has(payload.jti) || this.#proofs.size > MOST_PROOFS) throw bad('the DPoP proof is bad');
    this.#proofs.add(payload.jti);
    if (this.#options.nonce && payload.nonce !== NONCE) {
      throw new Refused(401, { error: 'use_dpop_nonce' }, 'DPoP', { 'dpop-nonce': NONCE });
    }
  }
}
