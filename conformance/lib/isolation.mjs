// The mock servers of the client suites listen on every interface. Where we can, a command runs in
// a network namespace of its own that has loopback alone.

import { spawnSync } from 'node:child_process';

const LOOPBACK = ['sh', '-c', 'ip link set lo up && exec "$@"', 'sh'];
const WAYS = [['unshare', '--net'], ['unshare', '--map-root-user', '--net']];

/** What to put before a command so that it sees loopback alone; undefined when that is not possible here. */
export function isolation() {
  const works = (way) => spawnSync(way[0], [...way.slice(1), ...LOOPBACK, 'true'], { timeout: 10_000 }).status === 0;
  const way = process.platform === 'linux' ? WAYS.find(works) : undefined;
  return way && [...way, ...LOOPBACK];
}
