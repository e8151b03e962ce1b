// Our client signs in at servers that are not ours: by `login` and `call`, and through a bridge.

import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { announced, start } from '../lib/processes.mjs';
import { freePort } from './lib/bed.mjs';
import { PYTHON } from './lib/python.mjs';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const READY_MS = 30_000;
const LONG = { ttl: '3600' };

export const flows = [];

/** `begin` starts the server and gives its URL, and what `oauth` has to say; `sub` is whom the server takes the person for. */
const scenario = (name, sub, scopes, begin) => flows.push({
  name,
  ms: 90_000,
  async work(bed, open) {
    const { url, oauth } = await begin(bed);
    const switchboard = open();
    const target = switchboard.configured(url, oauth);
    await switchboard.must(['login', ...target]);
    assert.match(await switchboard.must(['tools', ...target]), /whoami/);
    assert.deepEqual(await switchboard.whoami(target), { sub, scopes });
    const bridge = switchboard.bridge(target);
    assert.deepEqual(await bridge.whoami(), { sub, scopes });
    await bridge.close();
    assert.equal(switchboard.tabs().length, 1);
  },
});

/** Starts a server that says `ready URL`. */
async function ready(bed, argv) {
  const begin = (onOut) => start('foreign server', argv, { onOut, env: { HOME: bed.place } });
  const [handle, url] = await announced(begin, (line) => /^ready (\S+)/.exec(line)?.[1], READY_MS);
  bed.keep(handle);
  return { url };
}

// Its metadata name the issuer with a slash at the end, which is not what the issuer says of itself.
// wire: OC-3, OC-4, OC-6, OC-7, OC-31
scenario('our client signs in at FastMCP with its JWT verifier, lists and calls', 'ada', ['mcp:read'], async (bed) => {
  const provider = await bed.provider(LONG);
  const { url } = await ready(bed, [PYTHON, at('foreign_server.py'), 'verifier', provider.issuer]);
  await provider.allow(url);
  return { url, oauth: { trustedIssuer: provider.issuer } };
});

// wire: OC-3, OC-4, OC-6, OC-23, OC-31
scenario('our client signs in at FastMCP with its OAuth proxy, lists and calls', 'ada', ['mcp:read'], async (bed) => {
  const port = await freePort();
  const base = `http://127.0.0.1:${port}`;
  const proxy = {
    client_id: 'proxy', client_secret: 'proxy-secret', redirect_uris: [`${base}/auth/callback`],
    response_types: ['code'], grant_types: ['authorization_code', 'refresh_token'],
  };
  const provider = await bed.provider({ ...LONG, clients: [proxy], resource: [`${base}/mcp`] });
  return ready(bed, [PYTHON, at('foreign_server.py'), 'proxy', provider.issuer, `${port}`]);
});

// wire: OC-3, OC-4, OC-6, OC-23, OC-31
scenario('our client signs in at the TypeScript SDK with its router, lists and calls', 'nobody', ['mcp:tools'], (bed) => ready(bed, [process.execPath, at('foreign-server.mjs')]));
