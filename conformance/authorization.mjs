// Runs the official scenarios for authorization servers (README.md says how). One of them prints a URL for a
// person; `--person` is the command that opens it, and signs in.

import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { end, endAll, pause, start } from '../peers/lib/processes.mjs';
import { nodeOfSuites } from './lib/suites.mjs';
import { checksUnder, verdictOf } from './lib/verdicts.mjs';

const SCENARIOS = ['authorization-server-metadata-endpoint', 'authorization-code-grant'];
const RUN_MS = 60_000;
const USAGE = `node conformance/authorization.mjs --url ISSUER --client-id ID [--client-secret S] [--resource URI] [--port P] [--person "CMD"]`;
const at = (name) => fileURLToPath(new URL(name, import.meta.url));

function options() {
  const text = { type: 'string' };
  const person = `${process.execPath} ${at('../peers/oauth/person.mjs')}`;
  const { values } = parseArgs({
    options: { url: text, 'client-id': text, 'client-secret': text, resource: text, port: text, person: { ...text, default: person } },
  });
  if (values.url && values['client-id']) return values;
  console.error(USAGE);
  return process.exit(2);
}

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return `${port}`;
}

const { person, port = await freePort(), ...values } = options();
const output = at('../.cache/conformance/authorization');
fs.rmSync(output, { recursive: true, force: true });
fs.mkdirSync(output, { recursive: true });
const suite = at('node_modules/conformance-alpha/dist/index.js');
const flags = Object.entries({ ...values, port, 'output-dir': output }).flatMap(([name, value]) => [`--${name}`, value]);
console.log(`the callback of the suite is http://127.0.0.1:${port}/callback`);

let opened = false;
const open = (line) => {
  const page = /^(http:\/\/\S+[?&]response_type=code\S*)$/.exec(line.trim())?.[1];
  if (!page || opened) return;
  opened = true;
  const [command, ...args] = person.split(' ');
  start('person', [command, ...args, page], { onOut: (said) => console.log(`person: ${said}`) });
};
process.on('exit', endAll);
const handle = start('suite', [nodeOfSuites(), suite, 'authorization', ...flags], { onOut: open, onErr: open });
await Promise.race([handle.ended, pause(RUN_MS, undefined, { ref: false })]);
const trouble = handle.code === undefined ? `the suite did not end within ${RUN_MS / 1000} s` : undefined;
await end(handle, 1000);
const checks = checksUnder(output, 'authorization');
const results = SCENARIOS.map((name) => verdictOf(name, checks.get(name), trouble));
for (const { scenario, verdict, bad, passed } of results) {
  console.log(`${verdict === 'pass' ? 'ok   ' : 'FAIL '} authorization ${scenario}: ${passed.length} checks`);
  for (const { id, status, message } of bad) console.log(`      ${id} (${status.toLowerCase()}): ${message}`);
}
const passed = results.filter(({ verdict }) => verdict === 'pass').length;
console.log(`${passed} passed, ${results.length - passed} failed; files in ${path.relative(process.cwd(), output)}`);
process.exit(passed === results.length ? 0 : 1);
