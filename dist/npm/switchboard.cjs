#!/usr/bin/env node
// Runs the program, which the package for this system carries.
'use strict';

const { spawn } = require('node:child_process');
const { isatty } = require('node:tty');

const about = require('./package.json');
const name = `${about.name}-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/switchboard`);
} catch {
  const systems = Object.keys(about.optionalDependencies).join(', ');
  console.error(`error: the package ${name} is not installed`);
  console.error(`hint: there are ${systems}`);
  console.error('hint: if this system is one of them, install again, with optional dependencies');
  process.exit(1);
}

// As one process, where Node.js can: signals and the end need no help then.
if (process.execve) process.execve(program, [program, ...process.argv.slice(2)]);

const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    // The terminal has sent it to both, and a second one would end the program at once.
    if (signal !== 'SIGINT' || !isatty(0)) child.kill(signal);
  });
}
child.on('error', (error) => {
  console.error(`error: ${program} does not start: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
