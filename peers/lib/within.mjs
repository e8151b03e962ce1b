// One server as its client sees it behind a gateway that has many.

const SEPARATOR = '__';
const FIXTURE_LOGGER = 'peer';

/** `peer`, whose tools and prompts are those of `server` by their own names. */
export function within(peer, server) {
  const prefix = `${server}${SEPARATOR}`;
  const own = (items) =>
    items.filter(({ name }) => name.startsWith(prefix)).map((item) => ({ ...item, name: item.name.slice(prefix.length) }));
  return {
    ...peer,
    call: (name, ...rest) => peer.call(prefix + name, ...rest),
    prompt: (name, ...rest) => peer.prompt(prefix + name, ...rest),
    task: peer.task && ((name, ...rest) => peer.task(prefix + name, ...rest)),
    complete: (params) =>
      peer.complete(params.ref.name ? { ...params, ref: { ...params.ref, name: prefix + params.ref.name } } : params),
    async page(cursor) {
      const page = await peer.page(cursor);
      return { ...page, tools: own(page.tools) };
    },
    async prompts() {
      const list = await peer.prompts();
      return { ...list, prompts: own(list.prompts) };
    },
    // What other servers log at the same time is none of this one's.
    on: (method, seen) =>
      peer.on(method, (note) => {
        if (method !== 'notifications/message' || note.params.logger === FIXTURE_LOGGER) seen(note);
      }),
  };
}
