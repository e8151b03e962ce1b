// The peers and the cells of the matrix: which client, on which transport,
// meets which server, on which transport, in which era.

import { fileURLToPath } from 'node:url';
import { gapOf } from '../gaps.mjs';

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
let folder = at('../target/debug');

/** Where our own programs are, if not where cargo puts them by default. */
export function builtIn(path) {
  folder = path;
}

/** One of our own programs. */
export const built = (program) => `${folder}/${program}`;

export const PEERS = {
  ts1: (side) => [process.execPath, at(`ts1/${side}.mjs`)],
  ts2: (side) => [process.execPath, at(`ts2/${side}.mjs`)],
  py: (side) => [at('../.cache/venv/bin/python'), at(`py/${side}.py`)],
  rmcp: (side) => [at('rmcp/target/debug/rmcp-peer'), side],
  ours: (side) => [built('switchboard-peer'), side],
};
export const SDKS = Object.keys(PEERS).filter((peer) => peer !== 'ours');
const ERAS = ['legacy', 'modern'];
const TRANSPORTS = ['stdio', 'http', 'sse'];
const CHECKS = [
  'connect', 'list', 'echo', 'unicode', 'big', 'progress', 'cancel', 'elicit', 'visit', 'sample', 'sample_tools', 'roots', 'log',
  'subscribe', 'list_changed', 'parallel', 'unknown_tool',
];

function cellOf(cell) {
  const { era, client, down, server, up, serverEra } = cell;
  const other = serverEra === era ? '' : `+${serverEra}`;
  return { name: `${era} ${client}/${down} -> ${server}${other}/${up}`, ...cell };
}

const same = (era) => era;
const other = (era) => ERAS.find((it) => it !== era);

/** Every client with every server; `of` says what the server speaks, where the client speaks an era. */
function everyCell(peers, of = same) {
  const cells = [];
  for (const era of ERAS)
    for (const client of peers)
      for (const down of TRANSPORTS)
        for (const server of peers)
          for (const up of TRANSPORTS) {
            const uses = [
              { peer: client, side: 'client', era, transport: down },
              { peer: server, side: 'server', era: of(era), transport: up },
            ];
            if (uses.some((use) => gapOf(use))) continue;
            cells.push(cellOf({ era, client, down, server, up, serverEra: of(era) }));
          }
  return cells;
}

/** Servers that speak both eras, as most do in the field: the client's era has to win. */
function dualCells(peers, direct) {
  const routes = direct ? [['stdio', 'stdio'], ['http', 'http']] : [['http', 'stdio'], ['stdio', 'http']];
  const servers = peers.filter((peer) => !gapOf({ peer, era: 'modern' }));
  return ERAS.flatMap((era) =>
    peers.filter((peer) => !gapOf({ peer, era })).flatMap((client) =>
      servers.flatMap((server) =>
        routes.map(([down, up]) => cellOf({ era, client, down, server, up, serverEra: 'both' })))));
}

/** All cells through the bridge, or with `direct` those that need none: one era, one transport on both sides. */
export function cellsOf({ peers, direct }) {
  const cells = everyCell(peers);
  const single = direct ? cells.filter(({ down, up }) => down === up) : [...cells, ...everyCell(peers, other)];
  return [...single, ...dualCells(peers, direct)].map((cell) => withChecks(cell, !direct));
}

/** The direct cells in which our own library is the client, or the server, or both. */
export function ourCells(peers) {
  const all = [...peers.filter((peer) => peer !== 'ours'), 'ours'];
  return cellsOf({ peers: all, direct: true }).filter(({ client, server }) => [client, server].includes('ours'));
}

/** The cell with the checks to run, its features, and with those that a gap takes away and why. */
function withChecks(cell, bridged) {
  const gaps = [];
  const spoken = cell.serverEra === 'both' ? cell.era : cell.serverEra;
  // An SDK does not renew its session: `restart` is for the bridge, and for our client.
  const all = bridged || cell.client === 'ours' ? [...CHECKS, 'restart'] : CHECKS;
  const features = all.filter((check) => {
    const gap =
      gapOf({ peer: cell.client, side: 'client', era: cell.era, transport: cell.down, check }) ??
      gapOf({ peer: cell.server, side: 'server', era: spoken, transport: cell.up, check });
    if (gap) gaps.push({ check, reason: gap.reason });
    return !gap;
  });
  return { ...cell, features, gaps };
}
