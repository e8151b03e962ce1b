// Sessions of clients and their open calls.

import { at, get, has, live, remove } from './api.js';
import { fill, h } from './dom.js';
import { feed } from './feed.js';
import { link } from './router.js';
import { button, confirm, done, figure, table, text } from './table.js';
import { by, count, empty, head, many, span, took } from './ui.js';

/** @param {View} view */
export default async function sessions(view) {
	const { now, ask } = await live('sessions');
	const list = table('Sessions', [
		{ label: 'Client', by: (row) => row.client ?? '', cell: (row) => [row.client ?? 'unnamed', h('span.soft', null, ' ', row.version ?? '')] },
		text('User', 'principal', 'anonymous'),
		{ label: 'Session', cell: (row) => (row.id ? h('code', null, row.id) : h('span.soft', null, 'listens')) },
		{ label: 'Protocol', cell: (row) => [h('span.nb', null, row.revision ?? row.era ?? '–'), h('span.soft', null, ` ${row.transport ?? ''}`)] },
		{ label: 'Path', cell: (row) => h('code', null, row.path ?? '–') },
		figure('Age', 'ageSeconds', span), figure('Idle', 'idleSeconds', span), figure('Open calls', 'openCalls'), figure('Streams', 'streams'),
		{ label: '', cell: (row) => (row.id && has('end') ? button('End', async () => {
			if (!(await confirm('End this session?', 'End it', h('p', null, 'Its open calls are cancelled. A client may begin another session at once.')))) return;
			await done(remove(`sessions/${row.id}`), ask);
		}, 'danger', { 'aria-label': `End the session ${row.id}` }) : null), blank: (row) => !row.id },
	], (row) => `${row.id}|${row.principal}|${row.client}|${row.path}`, () => empty('sessions', 'Nobody is here', 'Clients of the modern era have no session between their calls. ', has('snippets') ? h('a', { href: link('connect') }, 'Connect a client') : null));
	const open = table('Open calls', [
		{ label: 'Name', by: (row) => row.name ?? row.method, cell: (row) => row.name ?? row.method },
		text('Server', 'server'),
		figure('For', 'ms', took),
		{ label: 'Client', cell: (row) => [row.client ?? '–', h('span.soft', null, ' ', row.principal ?? '')] },
		{ label: '', cell: (row) => has('cancel') && button('Cancel', () => done(remove(at`calls/open/${row.id}`), calls), 'danger', { 'aria-label': `Cancel ${row.name ?? row.method}` }) },
	], (row) => row.id, () => h('p.card.soft', null, 'No call is open.'));
	const calls = () => has('open') && get('calls/open').then(({ rows }) => open.show(rows), () => {});
	void calls();
	const timer = setInterval(() => document.hidden || calls(), 2000);
	view.leave(() => clearInterval(timer));
	const lead = h('span');
	view.watch(() => {
		const { count: all, listens, streams, parked, rows } = now.value;
		fill(lead, `${many(all, 'session')}, ${count(listens)} more listening without one, ${many(streams, 'stream')}${parked == null ? '' : `, ${many(parked, 'call')} waiting for the user`}${rows.length < all ? `; the busiest ${rows.length} are shown` : ''}.`);
		list.show(rows);
	});
	view.leave(feed(() => ({ views: 'sessions' }), ask, { sessions: ask }));
	return h('div.view', null, head('Sessions', lead), list.node, has('open') && [h('h2', null, 'Open calls'), open.node], by('switchboard status'));
}
