// Puts the bridge (or nothing) between a server and where its client connects.

import { announced, end, start } from './processes.mjs';

const READY_MS = 15_000;
const DIED_ON_REQUEST = 7; // the exit status of the tool `die`

const quoted = (argv) => argv.map((arg) => (/^[\w@%+=:,./-]+$/.test(arg) ? arg : `'${arg}'`)).join(' ');
const urlIn = (line) => /(http:\/\/127\.0\.0\.1:\d+\/\w+)/.exec(line)?.[1];

/** Ends a process with TERM, and says what was wrong about how it ended. */
async function ended(name, handle) {
  if (!(await end(handle))) return [`the ${name} did not end within 5 s of SIGTERM`];
  return handle.code === 0 ? [] : [`the ${name} ended with ${handle.code} after SIGTERM`];
}

/** An HTTP server that is started again on its port when the tool `die` ended it. */
async function upstream(command, env, handles) {
  const begin = (port) =>
    announced(
      (seen) => start('server', command(port), { env, onErr: seen, onOut: seen }),
      (line) => /^(?:listening )?(http:\S+)$/.exec(line)?.[1],
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
    return ended('server', state.current);
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
 * `handles` for the report, and `close`, which says what of ours did not end as it should.
 */
export async function open({ bridge, down, up, command, env, ours }) {
  const handles = [];
  const server = up === 'stdio' ? undefined : await upstream(command, env, handles);
  if (!bridge) {
    const close = async () => {
      const problems = (await server?.close()) ?? [];
      return ours ? problems : [];
    };
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
      const problems = await ended('bridge', handle);
      await server?.close();
      return problems;
    };
    return { url: down === 'sse' ? url.replace(/\/mcp$/, '/sse') : url, handles, close };
  } catch (error) {
    await server?.close();
    throw error;
  }
}
