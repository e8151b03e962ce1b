// A gateway of the bed that asks its clients for access tokens, and who issues them.

import { announced, start } from '../../lib/processes.mjs';

const READY_MS = 20_000;
const LONG = { ttl: '3600' };

/**
 * The authorization servers that clients may be sent to. Each starts what it needs, and gives its part of the
 * configuration, and `ready(url)` for what can be done only when the gateway's URL is known.
 */
export const AUTHORITIES = {
  provider: async (bed) => {
    const provider = await bed.provider(LONG);
    const oauth = { issuers: { corp: { issuer: provider.issuer, grant: { servers: ['*'] } } } };
    return { provider, oauth, ready: (url) => provider.allow(url) };
  },
};

/** Starts `switchboard serve` with a configuration; `said` collects its stderr. */
export async function serve(bed, switchboard, binary, config, ...flags) {
  const file = bed.file('gateway.json', JSON.stringify(config));
  const said = [];
  const argv = [binary, 'serve', '--config', file, '--port', '0', '--no-cache', ...flags];
  const begin = (onOut) => start('gateway', argv, { env: switchboard.env, onOut, onErr: (line) => said.push(line) });
  const [handle, url] = await announced(begin, (line) => /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(line)?.[0], READY_MS);
  bed.keep(handle);
  return { handle, url, said };
}

/** A gateway with the built-in server behind it, for clients with tokens of `authority`. */
export async function protectedGateway(bed, switchboard, { binary, authority }) {
  const { provider, oauth, ready } = await AUTHORITIES[authority](bed);
  const config = { mcpServers: { demo: { command: binary, args: ['demo'] } }, switchboard: { oauth } };
  const gateway = await serve(bed, switchboard, binary, config);
  await ready(gateway.url);
  return { ...gateway, provider };
}
