// What a server of the test bed has seen, and the paths under /admin where a test asks for it.

/** Names of the provider's routes whose requests are counted, and what they are called here. */
const ROUTES = {
  authorization: 'authorizations',
  device_authorization: 'device_authorizations',
  introspection: 'introspections',
  pushed_authorization_request: 'pushed_requests',
  registration: 'registrations',
  revocation: 'revocations',
};

/** Parameters and members that nobody but the client and the authorization server may know. */
const SECRETS = [
  'access_token', 'client_assertion', 'client_secret', 'code', 'code_verifier', 'id_token', 'refresh_token', 'registration_access_token', 'subject_token',
];

/** The requests an authorization server has answered, with the token requests by grant type, and the secrets in them. */
export class Counts {
  /** What was told in confidence, with a word for it. */
  secrets = new Map();
  all = { authorizations: 0, registrations: 0, revocations: 0, refreshes: 0, sign_ins: 0, token_requests: 0, grants: {}, errors: {} };

  #add(name, where = this.all) {
    where[name] = (where[name] ?? 0) + 1;
  }

  /** Middleware around every route of the provider. */
  async around(ctx, next) {
    await next();
    const route = ctx.oidc?.route;
    if (ROUTES[route]) this.#add(ROUTES[route]);
    if (route === 'token') this.#token(ctx);
    // The redirect that takes the person back with a code.
    const location = ctx.response.get('location');
    if (location && URL.canParse(location) && new URL(location).searchParams.has('code')) this.#add('sign_ins');
    this.#note(ctx.oidc?.body ?? ctx.oidc?.params);
    this.#note(ctx.body);
    if (ctx.body?.error) this.#add(ctx.body.error, this.all.errors);
  }

  #note(from) {
    for (const name of SECRETS) if (typeof from?.[name] === 'string') this.secrets.set(from[name], name);
  }

  #token(ctx) {
    this.#add('token_requests');
    const grant = ctx.oidc.params?.grant_type ?? 'none';
    this.#add(grant.split(':').at(-1), this.all.grants);
    if (grant === 'refresh_token') this.#add('refreshes');
  }
}

/** Answers requests under /admin: GET gives what the function gives, POST hands it the body. True if it was one. */
export function admin(paths) {
  return (req, res) => {
    const work = paths[req.url];
    if (!work) return false;
    let body = '';
    req.setEncoding('utf8');
    req.on('data', (chunk) => (body += chunk));
    req.on('end', () => {
      const said = work(body);
      res.writeHead(200, { 'content-type': 'application/json' });
      res.end(`${JSON.stringify(req.method === 'GET' ? said : {})}\n`);
    });
    return true;
  };
}
