// Real servers, good and bad, behind one gateway, and real clients of both eras (README.md says how).

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { descendants, ids, left, ready } from './gateway/plain.mjs';
import { lacking, Podman } from './gateway/podman.mjs';
import { badRuns, runOne, runs } from './gateway/runs.mjs';
import { BAD, begin } from './gateway/servers.mjs';
import { PEERS } from './lib/matrix.mjs';
import { announced, end, endAll, pause, start } from './lib/processes.mjs';
import { report } from './lib/report.mjs';

const WHOLE_RUN_MS = 4 * 60_000;
const READY_MS = 30_000;
const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const place = fs.mkdtempSync(path.join(os.tmpdir(), 'peers-gateway-'));
const mark = { SWITCHBOARD_PEERS: path.basename(place) };
let podman;

function stop(message) {
  console.error(message);
  process.exit(2);
}

function options() {
  const { values } = parseArgs({
    options: {
      jobs: { type: 'string', default: '3' },
      'no-container': { type: 'boolean', default: false },
      only: { type: 'string', default: '' },
      switchboard: { type: 'string', default: at('../target/debug/switchboard') },
      verbose: { type: 'boolean', default: false },
    },
  });
  if (!fs.existsSync(values.switchboard)) stop(`no switchboard at ${values.switchboard}: run cargo build first`);
  if (!fs.existsSync(at('node_modules'))) stop('peers/node_modules is missing: run npm ci --ignore-scripts in peers');
  for (const peer of ['py', 'rmcp']) {
    const [program] = PEERS[peer]('server');
    if (!fs.existsSync(program)) stop(`the peer ${peer} needs ${program}: run ./test.sh once`);
  }
  const missing = values['no-container'] ? [] : lacking();
  if (missing.length) stop(`${missing.join(', ')} is missing: ./test.sh setup installs it, --no-container does without`);
  return values;
}

/** The gateway with all servers behind it. */
async function open(switchboard) {
  const { handles, servers, groups } = await begin({ podman, mark });
  const file = path.join(place, 'servers.json');
  fs.writeFileSync(file, JSON.stringify({ mcpServers: servers, switchboard: { groups } }, null, 2));
  const argv = [switchboard, 'serve', '--config', file, '--port', '0', '--no-cache'];
  const [gateway, url] = await announced(
    (onOut) => start('gateway', argv, { env: mark, onOut }),
    (line) => /(http:\/\/127\.0\.0\.1:\d+)\/mcp/.exec(line)?.[1],
    READY_MS,
  );
  return { gateway, url, handles, good: Object.keys(servers).filter((name) => !BAD.includes(name)) };
}

/** Ends the gateway, and looks for what it has left. */
async function close(gateway) {
  const before = descendants(gateway.child.pid);
  const results = [];
  const check = (name, ok, detail) => results.push({ check: name, ok, detail: ok ? undefined : detail });
  check('children', before.length > 5, `only ${before.length} processes run behind the gateway`);
  process.kill(gateway.child.pid, 'SIGTERM');
  await Promise.race([gateway.ended, pause(15_000)]);
  check('exit', gateway.code === 0, `ended with ${gateway.code} within 15 s of SIGTERM`);
  const deadline = Date.now() + 5000;
  while (left(before, mark).length && Date.now() < deadline) await pause(100);
  const rest = left(before, mark);
  check('processes', rest.length === 0, `left: ${rest.join('; ')}`);
  if (podman) check('containers', podman.names().length === 0, `left: ${podman.names()}`);
  await end(gateway);
  return { results, gaps: [], kept: gateway.kept };
}

async function main() {
  const values = options();
  if (!values['no-container']) {
    podman = new Podman(place);
    podman.build();
  }
  const { gateway, url, handles, good } = await open(values.switchboard);
  let passed = 0;
  let failed = 0;
  const tell = async (name, work) => {
    const began = Date.now();
    const [ok, bad] = report({ name }, await work(), (Date.now() - began) / 1000, values.verbose);
    passed += ok;
    failed += bad;
  };
  await ready(url, [...good, 'crashes', 'floods'], READY_MS);
  console.log(`${good.length} good servers and ${BAD.length} bad ones behind ${values.switchboard}`);
  const wanted = new RegExp(values.only);
  const queue = runs(Boolean(podman)).filter(({ name }) => wanted.test(name));
  const worker = async () => {
    for (let run = queue.shift(); run; run = queue.shift()) await tell(run.name, () => runOne(run, url));
  };
  const bad = badRuns().filter(({ name }) => wanted.test(name)).map((run) => tell(run.name, () => runOne(run, url)));
  if (wanted.test('ids')) bad.push(tell('ids of answers', () => ids(url)));
  await Promise.all([...bad, ...Array.from({ length: Number(values.jobs) }, worker)]);
  await tell('the end', () => close(gateway));
  await Promise.all(handles.map((handle) => end(handle)));
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

process.on('exit', () => {
  endAll();
  // Where the gateway was killed, what guards its containers removes them, and needs their storage.
  const sleep = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  for (let tries = 100; tries && left([], mark).length; tries -= 1) sleep(100);
  podman?.clean();
  fs.rmSync(place, { recursive: true, force: true });
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));
setTimeout(() => stop(`the run took longer than ${WHOLE_RUN_MS / 60_000} minutes`), WHOLE_RUN_MS).unref();
await main();
