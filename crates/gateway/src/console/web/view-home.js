// Home: what needs somebody first, then figures and the last hour.

import { has, live } from './api.js';
import { fill, h, whenIdle } from './dom.js';
import { link } from './router.js';
import { by, count, empty, fuller, head, icon, many, next, section, span, state, took } from './ui.js';

const NEEDS = { server_failed: ['failed', 'is down'], server_retrying: ['retrying', 'is being tried again'], sign_in_needed: ['needed', 'needs a sign-in'], config_problem: ['warning', 'Configuration'], tool_changed: ['warning', 'describes its tools otherwise'] };

function row(need) {
	const [mark, words] = NEEDS[need.kind] ?? ['warning', need.kind];
	const to = need.kind === 'config_problem' ? link('config') : need.kind === 'tool_changed' ? link('safety') : need.kind === 'sign_in_needed' && has('accounts') ? link('accounts') : link('servers', need.server ?? '');
	return h('li.row.keep', null, state(mark, ''), h('div.grow', null, h('a', { href: to }, need.server ? `${need.server} ${words}` : words), h('div.soft.any', null, fuller(need.text, need.hint), next(need))));
}

/** @param {View} view */
export default async function home(view) {
	const { now, ask } = await live('overview');
	const lead = h('span');
	const needs = h('section.card', { 'aria-labelledby': 'needs' });
	const tiles = h('div.tiles');
	const charts = h('div.cols.charts');
	const tile = (to, value, words) => h('a.tile', { href: to }, h('b', null, value), h('span', null, words));
	view.watch(() => {
		const { totals, needs: list, uptimeSeconds } = now.value;
		fill(lead, `${count(totals.ready)} of ${many(totals.servers, 'server')} ready, ${many(totals.tools, 'tool')}, up ${span(uptimeSeconds)}`);
		if (!totals.servers) fill(needs, empty('servers', 'No server yet', 'Servers are in the configuration. ', h('a', { href: link('add') }, 'Add one'), ', or write it into the file: the gateway reads it at once.'));
		else if (list.length) fill(needs, h('h2', { id: 'needs' }, 'Needs attention'), h('ul.bare.stack', null, list.slice(0, 20).map(row), list.length > 20 ? h('li', null, h('a', { href: link('servers') }, `${list.length - 20} more`)) : null));
		else fill(needs, h('h2', { id: 'needs' }, state('ok', 'All is well')), h('p.soft', null, 'Every server is ready, asleep until its next call, or waits for its users.'));
		fill(tiles, tile(link('calls'), count(totals.callsPerMinute), 'calls in the last minute'), tile(link('calls', { outcome: 'failed' }), count(totals.errorsPerMinute), 'of them failed'), tile(link('charts'), took(totals.p95Ms), '95 % were faster'), tile(link('sessions'), count(totals.openCalls), 'open now'), tile(link('sessions'), count(totals.sessions), totals.sessions === 1 ? 'session' : 'sessions'));
	});
	const to = (view, words) => h('a.button', { href: link(view) }, icon(view), words);
	const { charts: { calls }, totals } = now.held;
	const begun = calls.some(Boolean) || !totals.servers ? null : section('Begin here', h('div.row', null, has('snippets') && to('connect', 'Connect a client'), to('tools', 'Try a tool'), has('config') && to('add', 'Add a server')));
	// What the first screen does not need comes after it.
	whenIdle(async () => {
		const [{ feed }, draw] = await Promise.all([import('./feed.js'), import('./charts.js')]);
		let drawn;
		view.watch(() => {
			if (drawn !== now.value.charts) fill(charts, draw.both((drawn = now.value.charts)));
		});
		const minutes = setInterval(() => document.hidden || ask(), 60_000);
		view.leave(() => clearInterval(minutes));
		view.leave(feed(() => ({ views: 'charts' }), ask, { charts: (data) => {
			now.value = { ...now.held, ...data };
		} }));
	});
	return h('div.view', null, head('Home', lead), needs, begun, tiles, charts, by('switchboard status --watch'));
}
