// Connect a client: for each known one the command, file or link.

import { get } from './api.js';
import { fill, h } from './dom.js';
import { filter, query, refine } from './router.js';
import { code } from './table.js';
import { by, head, icon } from './ui.js';

/** Links that an editor takes, and web pages; nothing else is a link. */
const LINKS = /^(https?|cursor|vscode|vscode-insiders|goose):/;

export default async function connect() {
	const box = h('div.split.list');
	let { url, rows } = await get(`snippets${query({ place: filter('place') || '/mcp' })}`);
	const pick = h('select', { 'aria-label': 'Endpoint', onchange: async () => {
		refine({ place: pick.value });
		({ url, rows } = await get(`snippets${query({ place: pick.value })}`));
		draw();
	} }, [...new Set(['/mcp', filter('place') || '/mcp'])].map((path) => h('option', { value: path, selected: path === filter('place') }, path === '/mcp' ? 'All servers, /mcp' : path)));
	void get('servers').then((list) => pick.append(...list.rows.map((row) => `/servers/${encodeURIComponent(row.name)}/mcp`).filter((path) => path !== filter('place')).map((path) => h('option', { value: path }, path))), () => {});
	const draw = () => {
		const clients = [...new Map(rows.map((row) => [row.client, row.title])).entries()];
		const now = filter('client') || clients[0]?.[0];
		const own = rows.filter((row) => row.client === now);
		fill(box, h('nav', { 'aria-label': 'Clients' }, h('ul.bare.picks', null, clients.map(([client, title]) => h('li', null, h('a', { href: '#', 'data-row': '', 'aria-current': client === now ? 'true' : null, onclick: (event) => {
			event.preventDefault();
			refine({ client });
			draw();
			document.getElementById('client')?.focus();
		} }, h('b', null, title)))))),
		h('section.card.stack', { 'aria-labelledby': 'client' }, h('h2', { id: 'client', tabindex: -1 }, own[0]?.title ?? now), own.map((row) => h('div.stack.tight', null, row.file ? h('p', null, 'In ', h('code.any', null, row.file), ':') : row.kind === 'command' ? h('p', null, 'Run:') : null, row.text ? code(row.text, `${row.title}: text to copy`) : null, row.link && LINKS.test(row.link) ? h('p', null, h('a.button', { href: row.link }, icon('connect'), `Add to ${row.title}`)) : null, row.note ? h('p.small.soft', null, row.note) : null))));
	};
	draw();
	return h('div.view', null, head('Connect a client', ['The endpoint is ', h('code.any', null, url), '. Keys are variables: the page does not know them.'], pick), box, by('switchboard install --client NAME'));
}
