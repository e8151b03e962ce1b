// Preloaded (`node --import`) into programs that we did not write: they reach this machine and no other.

import net from 'node:net';

const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function onLoopback(...args) {
  const [options] = [args].flat(2);
  const host = options?.host ?? (typeof options === 'object' ? 'localhost' : args[1]);
  if (!options?.path && !/^(localhost|127\.\d+\.\d+\.\d+|::1)$/.test(host)) throw new Error(`the test bed does not reach ${host}`);
  return connect.apply(this, args);
};
