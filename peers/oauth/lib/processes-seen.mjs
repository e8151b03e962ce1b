// What other programs of this machine can read of running processes, in /proc.

import fs from 'node:fs';

const read = (pid, file) => {
  try {
    return fs.readFileSync(`/proc/${pid}/${file}`, 'utf8').replaceAll('\0', '\n');
  } catch {
    return ''; // It has ended meanwhile.
  }
};

/** The processes that `pid` has started, and those that these have started. */
function descendants(pid) {
  const stats = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map((name) => [name, read(name, 'stat')]);
  // The name of the program is in brackets and may contain anything; the parent is the second field after it.
  const children = stats.filter(([, stat]) => stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] === `${pid}`).map(([name]) => name);
  return children.flatMap((child) => [child, ...descendants(child)]);
}

/** The command line of a process, and command line and environment of all that it has started. */
export function seen(pid) {
  const children = descendants(pid);
  return { argv: read(pid, 'cmdline'), children: children.map((child) => `${read(child, 'cmdline')}\n${read(child, 'environ')}`) };
}
