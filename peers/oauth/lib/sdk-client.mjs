// A client of a TypeScript SDK that signs in by itself, with the person of the bed.

import assert from 'node:assert/strict';
import * as v2 from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { UnauthorizedError as UnauthorizedV1 } from '@modelcontextprotocol/sdk/client/auth.js';
import { visit } from '../person.mjs';

// Nothing listens there: the person stops before it and hands the URL over.
const CALLBACK = 'http://127.0.0.1:9/callback';
const withoutWindow = async (page, callback) => (await visit(page, { stopAt: callback })).url;

/** The majors of the SDK; `code` is what `finishAuth` wants of the URL that the person came back to. */
const SDKS = {
  1: { Client: ClientV1, Transport: TransportV1, Unauthorized: UnauthorizedV1, code: (params) => params.get('code') },
  2: { Client: v2.Client, Transport: v2.StreamableHTTPClientTransport, Unauthorized: v2.UnauthorizedError, code: (params) => params },
};

function authProvider(kept, browse, callback) {
  return {
    redirectUrl: callback,
    clientMetadata: { client_name: 'SDK', redirect_uris: [callback], application_type: 'native', token_endpoint_auth_method: 'none' },
    clientInformation: () => kept.client,
    saveClientInformation: (client) => (kept.client = client),
    tokens: () => kept.tokens,
    saveTokens: (tokens) => (kept.tokens = tokens),
    redirectToAuthorization: async (page) => (kept.params = (await browse(page, callback)).searchParams),
    saveCodeVerifier: (verifier) => (kept.verifier = verifier),
    codeVerifier: () => kept.verifier,
    saveDiscoveryState: (state) => (kept.discovery = state),
    discoveryState: () => kept.discovery,
  };
}

/**
 * Signs in at `url` and connects. `token()` is the access token that the client got, `again()` a new connection with what was
 * kept. `browse(page, callback)` is the person: it gives the URL of the callback that they end at.
 */
export async function sdkClient(url, browse = withoutWindow, callback = CALLBACK, major = 2) {
  const { Client, Transport, Unauthorized, code } = SDKS[major];
  const kept = {};
  const transport = () => new Transport(new URL(url), { authProvider: authProvider(kept, browse, callback) });
  const open = () => new Client({ name: 'sdk', version: '1' });
  const first = transport();
  await assert.rejects(open().connect(first), Unauthorized);
  await first.finishAuth(code(kept.params));
  const again = async () => {
    const client = open();
    await client.connect(transport());
    return client;
  };
  return { client: await again(), again, kept, token: () => kept.tokens.access_token };
}
