// Preloaded (`node --import`) into servers that we did not write: they listen on
// every interface and do not tell the port they got. This keeps them on loopback.

import net from 'node:net';

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function onLoopback(port, ready) {
  this.once('listening', () => console.error(`listening http://127.0.0.1:${this.address().port}/mcp`));
  return listen.call(this, { port: Number(port), host: '127.0.0.1' }, ready);
};
