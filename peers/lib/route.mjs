// Puts the bridge (or nothing) between a server and where its client connects.

import { announced, end, start } from './processes.mjs';

const READY_MS = 15_000;
const DIED_ON_REQUEST = 7; // the exit status of the tool `die`

const quoted = (argv) => argv.map((arg) => (/^[\w@%+=:,./-]+$/.test(arg) ? arg : `'${arg}'`)).join(' ');
const urlIn = (line) => /(http:\/\/127\.0\.0\.1:\d+\/\w+)/.exec(line)?.[1];

/** An HTTP server that is started again on its port when the tool `die` ended it. */
async function upstream(command, env, handles) {
  const begin = (port) =>
    announced(
      (onErr) => start('server', command(port), { env, onErr }),
      (line) => /^listening (http:\S+)/.exec(line)?.[1],
      READY_MS,
    );
  const state = { closing: false };
  const watch = (handle, port) => {
    handles.push(handle);
    state.current = handle;
    handle.ended.then(async () => {
      if (state.closing || handle.code !== DIED_ON_REQUEST) return;
      const [next] = await begin(port).catch(() => []);
      if (next) watch(next, port);
      if (next && state.closing) await end(next);
    });
  };
  const [handle, url] = await begin('0');
  watch(handle, new URL(url).port);
  state.url = url;
  state.close = async () => {
    state.closing = true;
    await end(state.current);
  };
  return state;
}

function bridgeArgs({ down, up }, command, server) {
  const listening = down === 'stdio' ? [] : ['--port', '0'];
  if (up !== 'stdio') {
    return ['bridge', server.url, ...(up === 'sse' ? ['--transport', 'sse-only'] : []), ...listening];
  }
  return down === 'stdio' ? ['bridge', '--', ...command('0')] : ['bridge', '--stdio', quoted(command('0')), ...listening];
}

/**
 * Starts what has to run before the client. Gives `url` or `command` for the client,
 * `handles` for the report, and `close`, which says what did not end as it should.
 */
export async function open({ bridge, down, up, command, env }) {
  const handles = [];
  const server = up === 'stdio' ? undefined : await upstream(command, env, handles);
  if (!bridge) {
    const close = async () => (await server?.close(), []);
    return { url: server?.url, command: server ? undefined : command('0'), handles, close };
  }
  const argv = [bridge, ...bridgeArgs({ down, up }, command, server)];
  if (down === 'stdio') {
    return { command: argv, handles, close: async () => (await server?.close(), []) };
  }
  try {
    const [handle, url] = await announced((onOut) => start('bridge', argv, { env, onOut }), urlIn, READY_MS);
    handles.push(handle);
    const close = async () => {
      const gentle = await end(handle);
      await server?.close();
      if (!gentle) return ['the bridge did not end within 5 s of SIGTERM'];
      return handle.code === 0 ? [] : [`the bridge ended with ${handle.code} after SIGTERM`];
    };
    return { url: down === 'sse' ? url.replace(/\/mcp$/, '/sse') : url, handles, close };
  } catch (error) {
    await server?.close();
    throw error;
  }
}
