// Tools, prompts and resources of all servers: one search over all, and one to try.

import { address } from './content.js';
import { fill, h, HIDDEN, keyed, plain, texted } from './dom.js';
import { tree } from './json.js';
import { Client } from './mcp.js';
import { filter, link, place, refine } from './router.js';
import { signal } from './signal.js';
import { pickServer } from './table.js';
import { attempt, endpoint } from './try.js';
import { by, count, empty, failure, head, many } from './ui.js';

const DRAWN = 100;
const KINDS = { tools: [['tools/list', 'tools']], prompts: [['prompts/list', 'prompts']], resources: [['resources/list', 'resources'], ['resources/templates/list', 'resourceTemplates']] };

// Words as people and as programs write them.
const split = (text) => text.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();

function entry(item, at) {
	const name = texted(item.name ?? item.uri ?? item.uriTemplate);
	const key = texted(item.uri ?? item.uriTemplate ?? name);
	const title = texted(item.title ?? item.annotations?.title);
	const about = texted(item.description);
	return { id: key.length <= 300 ? key : `#${at}`, title, about, name: key, item, hay: `${split(name.slice(0, 300))} ${name.slice(0, 300).toLowerCase()}\n${split(title.slice(0, 300))}\n${about.slice(0, 600).toLowerCase()}` };
}

// The entries that have every word; those with it in the name first.
function search(all, sought) {
	const parts = split(sought).split(/[^\p{L}\p{N}]+/u).filter(Boolean);
	if (!parts.length) return all;
	const found = [];
	for (const one of all) {
		let score = 0;
		for (const part of parts) {
			const at = one.hay.indexOf(part);
			if (at < 0) {
				score = -1;
				break;
			}
			score += at < one.hay.indexOf('\n') ? 3 : 1;
		}
		if (score > 0) found.push([score, one]);
	}
	return found.sort((a, b) => b[0] - a[0]).map(([, one]) => one);
}

function schemaOf(kind, item) {
	if (kind === 'tools') return item.inputSchema ?? { type: 'object' };
	const names = kind === 'prompts' ? (Array.isArray(item.arguments) ? item.arguments : []) : [...texted(item.uriTemplate).matchAll(/\{\+?([^}]+)\}/g)].map(([, name]) => ({ name, required: true }));
	return { type: 'object', additionalProperties: false, properties: Object.fromEntries(names.map((one) => [texted(one.name), { type: 'string', title: one.title, description: one.description }])), required: names.filter((one) => one.required).map((one) => texted(one.name)) };
}

function detail(view, kind, one, server) {
	const { item } = one;
	const hints = item.annotations ?? {};
	const size = Math.ceil(JSON.stringify(item).length / 4);
	const chips = [hints.readOnlyHint && 'only reads', hints.destructiveHint && 'may destroy', hints.idempotentHint && 'repeatable', hints.openWorldHint && 'reaches outside'].filter(Boolean);
	return h('article.stack',
		null, h('div.stack.tight', null, h('h2', { tabindex: -1, class: 'any', id: 'chosen' }, one.title || one.name), one.title || item.uri ? h('div', null, kind === 'resources' ? address(one.name) : h('code.any', null, one.name)) : null,
			h('div.row.tight', null, chips.map((chip) => h('span', { class: chip === 'may destroy' ? 'chip warn' : 'chip' }, chip)), item.mimeType ? h('span.chip', null, item.mimeType) : null, kind === 'tools' ? h('span.chip', { title: 'Bytes of its definition divided by four' }, `about ${count(size)} tokens`) : null, (one.name + one.about + JSON.stringify(item)).slice(0, 100_000).search(HIDDEN) >= 0 ? h('span.chip.bad', null, 'has hidden characters') : null)),
		one.about ? h('p.lines', null, plain(one.about, 6000)) : h('p.soft', null, 'It has no description.'),
		attempt(view, { kind, name: one.name, item, schema: schemaOf(kind, item), server }),
		kind === 'tools' ? h('details', null, h('summary', null, 'Definition'), tree(item, 'Definition')) : null);
}

/** @param {View} view */
export default async function tools(view) {
	const kindNow = () => (KINDS[filter('kind')] ? filter('kind') : 'tools');
	const all = signal([]);
	const error = signal(null);
	const busy = signal(true);
	let turn = 0;
	const load = async () => {
		const own = (turn += 1);
		const client = new Client(endpoint(filter('server')));
		busy.value = true;
		error.value = null;
		let items = [];
		const page = (soFar) => own === turn && (all.value = [...items, ...soFar].map(entry));
		try {
			for (const [method, member] of KINDS[kindNow()] ?? []) items = [...items, ...(await client.list(method, member, page))];
		} catch (problem) {
			if (own === turn) error.value = problem;
		}
		if (own !== turn) return;
		all.value = items.map(entry);
		busy.value = false;
	};
	const sought = h('input', { type: 'search', placeholder: 'Search', 'aria-label': 'Search', value: filter('q'), oninput: () => refine({ q: sought.value }) });
	const servers = pickServer(filter('server'), (server) => {
		refine({ server, name: '' });
		void load();
	});
	const tabs = h('nav.tabs', { 'aria-label': 'Kinds' });
	const list = h('ul.bare.picks', { 'aria-label': 'Found' });
	const told = h('p.small.soft', { role: 'status' });
	const chosen = h('div.stack', { tabindex: -1 });
	let drawn = '';
	let kind = '';
	view.watch(() => {
		if (kindNow() === kind) return;
		kind = kindNow();
		all.value = [];
		void load();
	});
	view.watch(() => fill(tabs, Object.keys(KINDS).map((one) => h('a', { href: link('tools', { kind: one === 'tools' ? '' : one, server: filter('server'), q: filter('q') }), 'aria-current': one === kindNow() ? 'true' : null }, one[0]?.toUpperCase() + one.slice(1)))));
	view.watch(() => {
		const found = search(all.value, filter('q'));
		const query = Object.fromEntries(place.value.query);
		const base = link('tools', { ...query, name: undefined });
		keyed(list, found.slice(0, DRAWN), (one) => one.id, (one, old) => {
			const node = old ?? h('li', null, h('a', { 'data-row': '' }, h('b', null, one.name), h('span', null, (one.title || one.about).slice(0, 160))));
			const to = node.firstChild;
			to.href = `${base}${base.includes('?') ? '&' : '?'}name=${encodeURIComponent(one.id)}`;
			one.id === query.name ? to.setAttribute('aria-current', 'true') : to.removeAttribute('aria-current');
			return node;
		});
		fill(told, busy.value && !all.value.length ? 'Asking the servers …' : `${found.length < all.value.length ? `${count(found.length)} of ` : ''}${all.value.length >= 2e4 ? 'the first ' : ''}${many(all.value.length, kindNow().slice(0, -1))}${found.length > DRAWN ? `, the first ${DRAWN} shown` : ''}`);
	});
	view.watch(() => {
		const name = filter('name');
		const one = all.value.find((entry) => entry.id === name);
		if (error.value) return void fill(chosen, failure(error.value));
		const now = JSON.stringify([filter('kind'), filter('server'), name, Boolean(one), busy.value && !one]);
		if (now === drawn) return;
		drawn = now;
		if (one) {
			fill(chosen, detail(view, kindNow(), one, filter('server')));
			if (!document.activeElement?.matches('input,select')) document.getElementById('chosen')?.focus({ preventScroll: innerWidth > 1000 });
		} else fill(chosen, busy.value ? empty('tools', 'Asking the servers', 'Their lists come over MCP.') : name ? empty('tools', 'It is not here', 'No server offers it now, or it is not granted to you.') : all.value.length ? empty('tools', 'Choose one', h('kbd', null, '/'), ' searches, ', h('kbd', null, 'j'), ' and ', h('kbd', null, 'k'), ' move in the list.') : empty('tools', 'Nothing here', 'The servers that are ready offer nothing of this kind.'));
	});
	return h('div.view', null, head('Tools', 'What clients see, called over MCP with your own grants.'), tabs, h('div.split.list', null, h('div.stack.side-list', null, h('div.row.tight', null, sought, servers), told, list), chosen), by('switchboard tools URL', 'switchboard call URL NAME'));
}
