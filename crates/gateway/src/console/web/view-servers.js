// Servers as a table, or one of them.

import { has, live } from './api.js';
import { fill, h } from './dom.js';
import { feed } from './feed.js';
import { link } from './router.js';
import { figure, table } from './table.js';
import { by, count, empty, fuller, head, icon, many, next, state, took } from './ui.js';

const ORDER = ['failed', 'retrying', 'starting', 'personal', 'ready', 'asleep', 'stopped'];

/** @param {View} view */
export default async function servers(view) {
	if (view.rest[0]) return (await import('./view-server.js')).default(view, view.rest[0]);
	const { now, ask } = await live('servers');
	const lead = h('span');
	const list = table('Servers', [
		{ label: 'Server', by: (row) => row.name, cell: (row) => h('a', { href: link('servers', row.name), 'data-row': '' }, row.name) },
		{ label: 'State', by: (row) => ORDER.indexOf(row.state), cell: (row) => h('div', null, state(row.state, row.state === 'personal' && row.people !== null ? `personal, ${row.people} ready` : row.state), row.error ? h('div.small.soft.any', null, fuller(row.error, row.hint), next(row)) : null) },
		{ label: 'Protocol', cell: (row) => [h('span.nb', null, row.revision ?? '–'), h('span.soft', null, ` ${row.transport ?? ''}`)] },
		figure('Tools', 'tools'),
		{ ...figure('Calls', 'calls'), cell: (row) => [count(row.calls), row.openCalls ? h('span.soft', null, ` +${row.openCalls} open`) : null] },
		{ ...figure('Failed', 'errors'), cell: (row) => (row.errors ? h('a.bad', { href: link('calls', { server: row.name, outcome: 'failed' }) }, count(row.errors)) : '0') },
		figure('95 %', 'p95Ms', took),
		{ ...figure('Restarts', 'restarts'), blank: (row) => !row.restarts },
	], (row) => row.name, () => empty('servers', 'No server yet', 'Servers are in the configuration file. The gateway reads it when it changes.'));
	view.watch(() => {
		const all = now.value.rows.toSorted((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || (a.name < b.name ? -1 : 1));
		const down = all.filter((row) => row.state === 'failed' || row.state === 'retrying').length;
		fill(lead, down ? `${down} of ${many(all.length, 'server')} down or retrying, shown first.` : `${many(all.length, 'server')}, none down.`);
		list.show(all);
	});
	view.leave(feed(() => ({ views: 'servers' }), ask, { servers: (data) => {
		const next = new Map(now.held.rows.map((row) => [row.name, row]));
		for (const row of data.rows) next.set(row.name, row);
		for (const name of data.gone ?? []) next.delete(name);
		now.value = { rows: [...next.values()] };
	} }));
	return h('div.view', null, head('Servers', lead, has('config') ? h('a.button', { href: link('add') }, icon('add'), 'Add a server') : null), list.node, by('switchboard status'));
}
