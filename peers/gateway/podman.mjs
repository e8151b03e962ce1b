// An engine with a storage of its own, in which nobody else's containers are, and an
// image of nothing but a shell and a server. No registry is asked.

import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const IMAGE = 'localhost/switchboard-peers';
const SERVER = fileURLToPath(new URL('box.sh', import.meta.url));
// A container must not ask for higher limits than its starter may have.
const LIMITS = ['--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=1024:1024'];
const ENGINE_MS = 60_000;

const found = (program) => spawnSync('sh', ['-c', `command -v ${program}`], { encoding: 'utf8' }).stdout.trim();

/** What containers need and is not there. */
export function lacking() {
  const missing = ['podman', 'busybox'].filter((program) => !found(program));
  if (!found('runc') && !found('crun')) missing.push('runc');
  if (found('busybox') && spawnSync('ldd', [found('busybox')]).status === 0) missing.push('busybox-static');
  return missing;
}

export class Podman {
  constructor(place) {
    this.place = path.join(place, 'podman');
    // vfs needs nothing of the kernel.
    this.argv = ['podman', '--root', `${this.place}/root`, '--runroot', `${this.place}/run`, '--storage-driver', 'vfs'];
  }

  #run(argv, options = {}) {
    const { status, stdout, stderr, error } = spawnSync(argv[0], argv.slice(1), { timeout: ENGINE_MS, ...options });
    if (status !== 0) throw new Error(`${argv.join(' ')}: ${error?.message ?? stderr}`);
    return String(stdout);
  }

  /** Makes the image. */
  build() {
    const files = path.join(this.place, 'image');
    fs.mkdirSync(path.join(files, 'bin'), { recursive: true });
    fs.copyFileSync(found('busybox'), path.join(files, 'bin/busybox'));
    fs.symlinkSync('busybox', path.join(files, 'bin/sh'));
    fs.copyFileSync(SERVER, path.join(files, 'server.sh'));
    this.#run(['tar', '-C', files, '-cf', `${this.place}/image.tar`, '.']);
    this.#run([...this.argv, 'import', `${this.place}/image.tar`, IMAGE]);
  }

  /** The command that runs the server in a container. */
  server() {
    return [...this.argv, 'run', '--rm', '-i', '--network', 'none', '--pull', 'never', ...LIMITS, IMAGE, 'sh', '/server.sh'];
  }

  /** The names of all containers, in whatever state. */
  names() {
    return this.#run([...this.argv, 'ps', '-a', '--format', '{{.Names}}']).split('\n').filter(Boolean);
  }

  /** Removes everything. */
  clean() {
    if (!fs.existsSync(this.place)) return;
    for (const words of [['rm', '-fa', '-t', '0'], ['rmi', '-fa']]) {
      spawnSync(this.argv[0], [...this.argv.slice(1), ...words], { timeout: ENGINE_MS });
    }
    spawnSync('sh', ['-c', 'umount "$0"/root/* 2>/dev/null; rm -rf "$0"', this.place]);
  }
}
