// Calls as they happen, with filters in the address; and one call as a waterfall.

import { at, captures, get, has, kept, me, post, remove } from './api.js';
import { waterfall } from './charts.js';
import { fill, h } from './dom.js';
import { feed } from './feed.js';
import { filter, link, query, refine } from './router.js';
import { signal } from './signal.js';
import { block, button, clock, complain, copy, done, facts, field, figure, pickServer, sending, table, text } from './table.js';
import { by, count, empty, head, note, section, state, took } from './ui.js';

const KEPT = 500;
const FILTERS = ['server', 'name', 'outcome', 'principal', 'client', 'slower', 'method', 'trace'];

const current = () => Object.fromEntries(FILTERS.map((name) => [name, filter(name)]));

/** @param {View} view */
export default async function calls(view) {
	if (view.rest[0]) return call(view, view.rest[0]);
	const first = await get(`calls${query(current())}`);
	const rows = signal(first.rows);
	const older = signal(first.next);
	const paused = signal(false);
	const rate = signal(0);
	let missed = 0;
	const list = table('Calls, newest first', [
		{ label: 'Name', cell: (row) => h('a', { href: link('calls', row.id), 'data-row': '' }, row.target ?? row.name ?? row.method) },
		{ label: 'Outcome', cell: (row) => state(row.outcome, row.outcome.replace('_', ' ') + (row.code ? ` ${row.code}` : '')) },
		text('Server', 'server'),
		figure('Took', 'ms', took),
		{ label: 'Client', cell: (row) => [row.client ?? '–', row.principal ? h('span.soft', null, ' ', row.principal) : null], blank: (row) => !row.client && !row.principal },
		{ label: 'At', cell: (row) => clock(row.at) },
	], (row) => row.id, () => (FILTERS.some(filter) ? empty('calls', 'No call fits the filter', 'The last 4,096 calls are kept, and the last 1,024 failed ones. ', button('Clear the filter', () => apply(Object.fromEntries(FILTERS.map((name) => [name, '']))), 'quiet')) : empty('calls', 'No call yet', 'Calls of clients appear here as they happen. ', h('a', { href: link('tools') }, 'Try a tool'), ' to see the first.')));
	const foot = h('div.row');
	const save = h('a.button', { download: 'calls.jsonl' }, 'Export');
	const lead = h('span');
	const more = button('Older calls', async () => {
		const page = await get(`calls${query({ ...current(), after: older.held })}`);
		rows.value = [...rows.held, ...page.rows].slice(0, KEPT);
		older.value = rows.held.length < KEPT ? page.next : undefined;
	});
	view.watch(() => {
		list.show(rows.value);
		save.href = `/console/api/calls${query({ ...current(), format: 'jsonl' })}`;
		more.hidden = !older.value || rows.value.length >= KEPT;
		fill(lead, paused.value ? `Paused; ${count(missed)} more have come.` : `${count(rows.value.length)} shown, live${rate.value ? `, ${count(rate.value)} a second` : ''}. ${captures.value.length ? 'Requests and answers of some are kept.' : 'Only facts are kept: no arguments and no results.'}`);
	});
	const pause = button('Pause', () => {
		paused.value = !paused.held;
		pause.textContent = paused.held ? 'Go on' : 'Pause';
		pause.setAttribute('aria-pressed', String(paused.held));
		if (!paused.held) void all();
	});
	const all = () => get(`calls${query(current())}`).then((fresh) => {
		missed = 0;
		rows.value = fresh.rows;
		older.value = fresh.next;
	}, () => {});
	let stop = () => {};
	const follow = () => {
		stop();
		stop = feed(() => ({ views: 'calls', ...current(), after: rows.held[0]?.id }), () => paused.held || all(), { calls: (data) => {
			rate.value = data.callsPerSecond ?? 0;
			if (paused.held) {
				missed += data.rows.length + (data.skipped ?? 0);
				if (missed) paused.value = true;
				return;
			}
			if (!data.rows.length) return;
			const known = new Set(rows.held.slice(0, 200).map((row) => row.id));
			rows.value = [...data.rows.filter((row) => !known.has(row.id)).reverse(), ...rows.held].slice(0, KEPT);
		} });
	};
	follow();
	view.leave(() => stop());
	const apply = (changes) => {
		refine(changes);
		void all();
		follow();
		for (const name of FILTERS) if (inputs[name]) inputs[name].value = filter(name);
	};
	let timer = 0;
	view.leave(() => clearTimeout(timer));
	const inputs = {};
	const input = (name, label, type = 'search') => h('label', null, label, (inputs[name] = h('input', { type, min: 0, value: filter(name), oninput: () => {
		clearTimeout(timer);
		timer = setTimeout(() => apply({ [name]: inputs[name].value }), 250);
	} })));
	const choice = (name, label, values) => h('label', null, label, (inputs[name] = h('select', { value: filter(name), onchange: () => apply({ [name]: inputs[name].value }) }, ['', ...values].map((value) => h('option', { value }, value.replace('_', ' ') || 'any')))));
	fill(foot, more, by('switchboard status'));
	return h('div.view', null, head('Calls', lead, pause, save), h('div.filters', { role: 'search', 'aria-label': 'Filter calls' }, input('server', 'Server'), input('name', 'Name has'), choice('outcome', 'Outcome', ['ok', 'failed', 'tool_error', 'error', 'cancelled']), choice('method', 'Method', ['tools/call', 'tools/list', 'prompts/get', 'resources/read']), input('client', 'Client has'), input('principal', 'User'), input('slower', 'Slower than, ms', 'number')), has('capture') && me.held.canWrite && capture(view), h('div.calls', null, list.node), foot);
}

// What is switched on to keep requests and answers for a while.
function capture(view) {
	const server = pickServer('', () => {});
	const who = h('input', { placeholder: 'anybody', autocomplete: 'off' });
	const rows = h('ul.bare.stack');
	const show = async () => {
		captures.value = (await get('capture')).rows;
	};
	view.watch(() => fill(rows, captures.value.map((row) => h('li.row', null, h('span.grow', null, kept(row)), button('Stop', () => done(remove(`capture/${row.id}`), show))))));
	void show().catch(complain);
	return h('details.card', null, h('summary', null, 'Keep requests and answers for a while'), h('div.stack', null, h('p.soft', null, 'In memory alone, secrets masked, 64 KiB of each. Everybody whom it concerns is told.'), rows, sending('Keep them for 15 minutes', () => done(post('capture', { server: server.value || undefined, principal: who.value.trim() || undefined, minutes: 15 }), show), h('div', null, server), field('Of user', who))));
}

const body = (title, text, isCut) => section(title, text == null ? h('p.soft', null, 'There was none.') : block(isCut ? text : JSON.stringify(JSON.parse(text), null, 2), title));

const CODES = { '-32600': 'The request was wrong or too large.', '-32601': 'The server has no such method.', '-32602': 'It is not there or not granted, or its arguments do not fit.', '-32603': 'The server exited, took too long or failed, or a limit was reached.', '-32042': 'The user must visit a page first.' };

const why = ({ outcome, code, server }, captured) => !['tool_error', 'error'].includes(outcome) ? null : note(outcome === 'error' ? 'bad' : 'warn', h('b', null, outcome === 'tool_error' ? 'The tool says that it failed: its result has the reason.' : (CODES[code] ?? 'The answer was an error.')), captured ? null : h('p.small', null, 'Results are not kept. Try it again to see the answer', server ? [', or look at ', h('a', { href: link('servers', server) }, server)] : null, '.'));

async function call(view, id) {
	const it = await get(at`calls/${id}`);
	const row = it.call;
	return h('div.view',
		null, head(row.target ?? row.name ?? row.method, [h('a', { href: link('calls') }, 'All calls')], row.server && row.method === 'tools/call' && has('mcp') ? h('a.button', { href: link('tools', { name: row.name ?? row.target }) }, 'Try this tool') : null, row.server ? h('a.button', { href: link('calls', { server: row.server, name: row.target ?? '' }) }, 'Others like it') : null),
		h('div.row', null, state(row.outcome, row.outcome.replace('_', ' ') + (row.code ? ` (code ${row.code})` : '')), h('span.soft', null, `took ${took(row.ms)}`)),
		why(row, it.captured),
		it.captured ? h('div.cols', null, body('Request', it.captured.request, it.captured.isCut), body('Answer', it.captured.response, it.captured.isCut)) : null,
		section('Where the time went', it.spans?.length ? waterfall(it.spans) : h('p.soft', null, 'No parts of this call were measured.')),
		h('div.cols',
			null, section('Facts', facts([['Method', row.method], ['Server', row.server ? h('a', { href: link('servers', row.server) }, row.server) : '–'], ['Name', row.name ?? '–'], ['At the server', row.target ?? '–'], ['Client', [row.client, row.principal].filter(Boolean).join(', ') || '–'], ['Protocol', [row.era, row.transport].filter(Boolean).join(', ')], ['Session', row.session ?? 'none'], ['Began', clock(row.at)]])),
			section('Trace', row.trace ? [h('code.any', null, row.trace), h('div.row', null, copy(() => row.trace, 'Copy the id'))] : h('p.soft', null, 'The call had no trace.'), it.others?.length ? h('div', null, 'Other calls of the trace: ', it.others.slice(0, 50).map((other) => [h('a', { href: link('calls', other) }, other), ' '])) : null)));
}
