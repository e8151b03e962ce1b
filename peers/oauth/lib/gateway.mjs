// A gateway of the bed that asks its clients for access tokens, and who issues them.

import { announced, start } from '../../lib/processes.mjs';
import { freePort } from './bed.mjs';

const READY_MS = 20_000;
const LONG = { ttl: '3600' };

/**
 * The authorization servers that clients may be sent to. Each starts what it needs, and gives its part of the configuration,
 * the port of the gateway, and `ready(url)` for what can be done only when the gateway's URL is known.
 */
export const AUTHORITIES = {
  provider: async (bed) => {
    const provider = await bed.provider(LONG);
    const settings = { oauth: { issuers: issuers(provider) } };
    return { provider, settings, port: 0, ready: (url) => provider.allow(url) };
  },
  /** The gateway itself, before a provider that registers nobody. */
  facade: async (bed) => {
    const port = await freePort();
    const base = `http://127.0.0.1:${port}`;
    const client = {
      client_id: 'gw', client_secret: 's', redirect_uris: [`${base}/oauth/signed-in`],
      response_types: ['code'], grant_types: ['authorization_code', 'refresh_token'],
    };
    const provider = await bed.provider({ ...LONG, clients: [client], 'no-registration': true, 'no-cimd': true });
    const facade = { issuer: 'corp', clientId: 'gw', clientSecret: 's' };
    return { provider, settings: { publicUrl: base, oauth: { issuers: issuers(provider), facade } }, port, ready: () => {} };
  },
};

const issuers = (provider) => ({ corp: { issuer: provider.issuer, grant: { servers: ['*'] } } });

/** Starts `switchboard serve` with a configuration; `said` collects its stderr. */
export async function serve(bed, switchboard, binary, config, flags = [], port = 0) {
  const file = bed.file('gateway.json', JSON.stringify(config));
  const said = [];
  const argv = [binary, 'serve', '--config', file, '--port', `${port}`, '--no-cache', ...flags];
  const begin = (onOut) => start('gateway', argv, { env: switchboard.env, onOut, onErr: (line) => said.push(line) });
  const [handle, url] = await announced(begin, (line) => /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(line)?.[0], READY_MS);
  bed.keep(handle);
  return { handle, url, said };
}

/** A gateway with the built-in server behind it, for clients with tokens of `authority`. */
export async function protectedGateway(bed, switchboard, { binary, authority }) {
  const { provider, settings, port, ready } = await AUTHORITIES[authority](bed);
  const config = { mcpServers: { demo: { command: binary, args: ['demo'] } }, switchboard: settings };
  const gateway = await serve(bed, switchboard, binary, config, [], port);
  await ready(gateway.url);
  return { ...gateway, provider };
}
