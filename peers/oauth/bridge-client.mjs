#!/usr/bin/env node
// A client under test for the conformance suites: `switchboard bridge` signs in, and an SDK talks to it on a pipe.
// SWITCHBOARD=path/to/switchboard node conformance/run.mjs client --oauth person --command "node peers/oauth/bridge-client.mjs"
// The suite appends the URL of its server and says in the environment what it wants (conformance/README.md).

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const MODERN = '2026-07-28';
const CLIENT_METADATA_URL = 'https://conformance-test.local/client-metadata.json';
const CALL_MS = 25_000;
const { MCP_CONFORMANCE_SCENARIO: scenario = '', MCP_CONFORMANCE_PROTOCOL_VERSION: revision, SWITCHBOARD } = process.env;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const url = process.argv.at(-1);
// There is no person: the mock server redirects at once. A browser that only follows redirects is enough.
const browser = fileURLToPath(new URL('person.mjs', import.meta.url));

/** The `oauth` block of the server: what the scenario gives beforehand. */
function oauth() {
  return {
    ...(context.client_id && { clientId: context.client_id }),
    ...(context.client_secret && { clientSecret: context.client_secret }),
    ...(context.issuer && { issuer: context.issuer }),
    ...(scenario.startsWith('auth/dpop') && { dpop: true }),
  };
}

async function play(place) {
  const file = path.join(place, 'servers.json');
  fs.writeFileSync(file, JSON.stringify({ mcpServers: { it: { url, oauth: oauth() } } }));
  const args = ['bridge', 'it', '--config', file, '--client-metadata-url', CLIENT_METADATA_URL];
  const env = { ...process.env, BROWSER: browser, SWITCHBOARD_STATE_DIR: place, SWITCHBOARD_STORE_KEY: '07'.repeat(32) };
  const transport = new StdioClientTransport({ command: SWITCHBOARD, args, env, stderr: 'inherit' });
  const mode = revision === MODERN ? { pin: MODERN } : 'legacy';
  const client = new Client({ name: 'bridge-client', version: '1' }, { versionNegotiation: { mode } });
  try {
    await client.connect(transport, { timeout: CALL_MS });
    const { tools } = await client.listTools({}, { timeout: CALL_MS });
    for (const { name } of tools) {
      const result = await client.callTool({ name, arguments: {} }, { timeout: CALL_MS });
      if (result.isError) throw new Error(`${name} failed: ${JSON.stringify(result.content)}`);
    }
  } finally {
    await client.close();
  }
}

if (!SWITCHBOARD) throw new Error('SWITCHBOARD is not set: the path of the binary');
const place = fs.mkdtempSync(path.join(os.tmpdir(), 'bridge-client-'));
try {
  await play(place);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  fs.rmSync(place, { recursive: true, force: true, maxRetries: 5 });
}
