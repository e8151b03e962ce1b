// Clients that are not ours sign in at our gateway, list its tools and call one. Who issues the tokens is `--authority`.

import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { end, pause } from '../lib/processes.mjs';
import { protectedGateway } from './lib/gateway.mjs';
import { PYTHON } from './lib/python.mjs';
import { sdkClient } from './lib/sdk-client.mjs';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const INSPECTOR = at('../node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js');
const MCP_REMOTE = at('node_modules/mcp-remote/dist/proxy.js');
const COMMAND_MS = 40_000;
const TOOL = 'demo__echo';
const WORDS = 'from afar';
/** Programs of others reach this machine alone: those of Node.js by a preload, those of Python by a proxy that is not there. */
const ALONE = {
  node: { NODE_OPTIONS: `--import=${new URL('lib/stay-here.mjs', import.meta.url)}` },
  python: { HTTP_PROXY: 'http://127.0.0.1:9', HTTPS_PROXY: 'http://127.0.0.1:9', NO_PROXY: '127.0.0.1,localhost' },
};

export const flows = [];

/** `work` gives the names of the tools and the text of the call. */
const scenario = (name, work) => flows.push({
  name,
  ms: 60_000,
  async work(bed, open, options) {
    const switchboard = open('later');
    const gateway = await protectedGateway(bed, switchboard, options);
    const refused = await fetch(gateway.url, { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } });
    assert.equal(refused.status, 401);
    const { tools, text } = await work(bed, gateway.url, { BROWSER: switchboard.env.BROWSER, HOME: bed.place });
    assert.ok(tools.includes(TOOL), `the tools are ${tools}`);
    assert.equal(text, WORDS);
    assert.equal((await gateway.provider.counts()).sign_ins, 1);
  },
});

/** Lists and calls by a connected client of an SDK. */
async function listAndCall(connected) {
  const { tools } = await connected.listTools();
  const { content } = await connected.callTool({ name: TOOL, arguments: { message: WORDS } });
  await connected.close();
  return { tools: tools.map(({ name }) => name), text: content[0].text };
}

/** Runs a program to its end; gives the JSON that it prints. */
async function printed(bed, name, argv, env) {
  const lines = [];
  const handle = bed.start(name, argv, { env, onOut: (line) => lines.push(line) });
  await Promise.race([handle.ended, pause(COMMAND_MS, undefined, { ref: false })]);
  const { code } = handle;
  await end(handle, 1000);
  if (code !== 0) throw new Error(`${name} ended with ${code ?? 'a timeout'}\n${handle.kept.join('\n')}`);
  return JSON.parse(lines.join('\n'));
}

const python = (library) => (bed, url, env) =>
  printed(bed, library, [PYTHON, at('foreign_client.py'), library, url, TOOL, JSON.stringify({ message: WORDS })], { ...env, ...ALONE.python });

// wire: OR-1, OR-2, OR-5, OR-10, AUTH-30, AUTH-31, AUTH-32
scenario('TypeScript SDK 2 signs in at the gateway, lists and calls', async (bed, url) => listAndCall((await sdkClient(url)).client));

// wire: OR-1, OR-2, OR-5, OR-10
scenario('TypeScript SDK 1 signs in at the gateway, lists and calls', async (bed, url) => listAndCall((await sdkClient(url, undefined, undefined, 1)).client));

// wire: OR-1, OR-2, OR-5, OR-10
scenario('Python SDK signs in at the gateway, lists and calls', python('mcp'));

// wire: OR-1, OR-2, OR-5, OR-10
scenario('FastMCP signs in at the gateway, lists and calls', python('fastmcp'));

// wire: OR-1, OR-2, OR-5, OR-10
scenario('mcp-remote signs in at the gateway, lists and calls', async (bed, url, env) => {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [MCP_REMOTE, url],
    env: { ...process.env, ...env, ...ALONE.node, MCP_REMOTE_CONFIG_DIR: bed.file('mcp-auth') },
    stderr: 'ignore',
  });
  const connected = new Client({ name: 'before mcp-remote', version: '1' });
  await connected.connect(transport, { timeout: COMMAND_MS });
  return listAndCall(connected);
});

// wire: OR-5, OR-10
scenario('the Inspector is let in at the gateway by a token in a header, lists and calls', async (bed, url, env) => {
  const { client: connected, token } = await sdkClient(url);
  const ask = (...words) => printed(bed, 'inspector', [
    process.execPath, INSPECTOR, '--cli', url, '--transport', 'http', '--header', `Authorization: Bearer ${token()}`, ...words,
  ], { ...env, ...ALONE.node });
  const { tools } = await ask('--method', 'tools/list');
  const { content } = await ask('--method', 'tools/call', '--tool-name', TOOL, '--tool-arg', `message=${WORDS}`);
  await connected.close();
  return { tools: tools.map(({ name }) => name), text: content[0].text };
});
