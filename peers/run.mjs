// Runs the matrix of peers, through the bridge or with our own library (README.md says how).

import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { GAPS } from './gaps.mjs';
import { runCell } from './lib/cell.mjs';
import { cover } from './lib/cover.mjs';
import { inspectorCells, ourInspectorCells, runInspectorCell } from './lib/inspector.mjs';
import { builtIn, cellsOf, ourCells, PEERS, SDKS } from './lib/matrix.mjs';
import { endAll } from './lib/processes.mjs';
import { report } from './lib/report.mjs';

const CELL_MS = 20_000; // More than a cell takes on average, with a core of its own.
const at = (path) => fileURLToPath(new URL(path, import.meta.url));

function options() {
  const { values } = parseArgs({
    options: {
      bridge: { type: 'string' },
      direct: { type: 'boolean', default: false },
      full: { type: 'boolean', default: false },
      jobs: { type: 'string', default: '2' },
      list: { type: 'boolean', default: false },
      only: { type: 'string', default: '' },
      ours: { type: 'boolean', default: false },
      peers: { type: 'string', default: SDKS.join(',') },
      verbose: { type: 'boolean', default: false },
    },
  });
  return values;
}

function stop(message) {
  console.error(message);
  process.exit(2);
}

function binaryOf(values) {
  const found = values.bridge
    ? [values.bridge]
    : [at('../target/debug/switchboard'), at('../target/release/switchboard')];
  return found.find((path) => fs.existsSync(path)) ?? stop(`no switchboard at ${found.join(' or ')}: run cargo build first`);
}

function peersOf(values) {
  const peers = [...values.peers.split(','), ...(values.ours ? ['ours'] : [])];
  for (const peer of peers) {
    const program = PEERS[peer]?.('server').find((part) => part.startsWith('/') && !fs.existsSync(part));
    if (!PEERS[peer]) stop(`no peer is called ${peer}`);
    if (program) stop(`the peer ${peer} needs ${program}: run ./test.sh once, or leave it out with --peers`);
  }
  if (!fs.existsSync(at('node_modules'))) stop('peers/node_modules is missing: run npm ci --ignore-scripts in peers');
  return peers;
}

async function main() {
  const values = options();
  const binary = values.direct ? undefined : binaryOf(values);
  if (binary) builtIn(path.dirname(path.resolve(binary)));
  const peers = peersOf(values);
  const wanted = new RegExp(values.only);
  const all = values.ours
    ? [...ourCells(peers), ...ourInspectorCells()]
    : [...cellsOf({ ...values, peers }), ...inspectorCells(values.direct)];
  const chosen = values.full || values.direct || values.only ? all : cover(all);
  const cells = chosen.filter(({ name }) => wanted.test(name));
  if (values.list) return cells.forEach(({ name }) => console.log(name));
  if (!cells.length) stop(`no cell matches --only ${values.only}`);
  const bridge = values.ours ? undefined : binary;
  console.log(`${cells.length} of ${all.length} cells ${bridge ? `through ${bridge}` : 'without a bridge'}; the gaps are:`);
  for (const { reason, ...use } of GAPS) console.log(`  ${Object.values(use).join(' ')}: ${reason}`);

  const wholeMs = cells.length * CELL_MS;
  setTimeout(() => stop(`the run took longer than ${wholeMs / 60_000} minutes`), wholeMs).unref();

  let passed = 0;
  let failed = 0;
  const queue = [...cells];
  const worker = async () => {
    for (let cell = queue.shift(); cell; cell = queue.shift()) {
      const began = Date.now();
      const run = cell.inspector ? runInspectorCell : runCell;
      const [good, bad] = report(cell, await run(cell, { bridge }), (Date.now() - began) / 1000, values.verbose);
      passed += good;
      failed += bad;
    }
  };
  await Promise.all(Array.from({ length: Number(values.jobs) }, worker));
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

process.on('exit', endAll);
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));
await main();
