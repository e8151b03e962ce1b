// The parts that views are put together from.

import { h, svg } from './dom.js';

const ICONS = {
	home: 'M4 11 12 4l8 7v9h-5v-6H9v6H4z',
	servers: 'M4 5h16v5H4zM4 14h16v5H4zM8 7.5h.01M8 16.5h.01',
	tools: 'M14 6a4 4 0 0 0 5 5l-9 9-4-4 9-9zM14 6l3-2 3 3-1 4',
	calls: 'M4 7h9M4 12h16M4 17h6',
	sessions: 'M4 5h16v11h-9l-5 4v-4H4z',
	charts: 'M4 4v16h16M8 15l4-5 3 3 5-7',
	connect: 'M9 4v5M15 4v5M6 9h12v3a6 6 0 0 1-12 0zM12 18v3',
	config: 'M6 3h9l4 4v14H6zM9 12h7M9 16h7M14 3v5h5',
	add: 'M12 5v14M5 12h14',
	keys: 'M8 15a4 4 0 1 0 0-8 4 4 0 0 0 0 8M12 11h9M18 11v4',
	accounts: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8M4 21a8 8 0 0 1 16 0',
	safety: 'M12 3l7 3v5c0 5-3 8-7 10-4-2-7-5-7-10V6zM9 12l2 2 4-4',
	menu: 'M4 7h16M4 12h16M4 17h16',
};

export const icon = (name) => svg('svg', { viewBox: '0 0 24 24', fill: 'none', stroke: 'currentColor', 'stroke-width': 1.8, 'stroke-linecap': 'round', 'stroke-linejoin': 'round', 'aria-hidden': 'true' }, svg('path', { d: ICONS[name] }));

/** Shapes differ, so that colour is not needed to tell states apart. */
const STATES = {
	ready: ['good', 'dot'], ok: ['good', 'dot'], connected: ['good', 'dot'],
	starting: ['idle', 'half'], open: ['idle', 'half'],
	retrying: ['warn', 'up'], tool_error: ['warn', 'up'], warning: ['warn', 'up'], needed: ['warn', 'up'],
	failed: ['bad', 'cross'], error: ['bad', 'cross'],
	asleep: ['idle', 'ring'], stopped: ['idle', 'bar'], skipped: ['idle', 'ring'], cancelled: ['idle', 'bar'], personal: ['good', 'ring'],
};
export function state(name, words = name.replace('_', ' ')) {
	const [tone, shape] = STATES[name] ?? ['idle', 'ring'];
	return h('span.state', { 'data-tone': tone, 'data-shape': shape }, words);
}

export const count = (value) => (value == null ? '–' : Number(value).toLocaleString('en'));

/** `many(2, 'tool')` is `2 tools`. */
export const many = (value, word) => `${count(value)} ${word}${value === 1 ? '' : 's'}`;

// Their spaces do not break.
export function took(ms) {
	if (ms == null) return '–';
	if (ms < 10) return `${ms.toFixed(1)}\u00a0ms`;
	if (ms < 1000) return `${Math.round(ms)}\u00a0ms`;
	return ms < 60_000 ? `${(ms / 1000).toFixed(1)}\u00a0s` : span(ms / 1000);
}

export function span(seconds) {
	if (seconds == null) return '–';
	if (seconds < 60) return `${Math.round(seconds)}\u00a0s`;
	if (seconds < 3600) return `${Math.floor(seconds / 60)}\u00a0min`;
	if (seconds < 86_400) return `${Math.floor(seconds / 3600)}\u00a0h ${Math.floor((seconds % 3600) / 60)}\u00a0min`;
	return `${Math.floor(seconds / 86_400)}\u00a0d ${Math.floor((seconds % 86_400) / 3600)}\u00a0h`;
}

export const next = (it) => (it.nextAttemptMs ? ` · next try in ${span(it.nextAttemptMs / 1000)}` : null);

export const head = (title, lead, ...actions) => h('div.head', null, h('div.stack.tight', null, h('h1', { tabindex: -1 }, title), lead ? h('p.lead', null, lead) : null), actions.length ? h('div.row.tight', null, ...actions) : null);

export const empty = (picture, title, ...words) => h('div.empty', null, icon(picture), h('b', null, title), h('p', null, ...words));

export const note = (level, ...words) => h('div.note', { 'data-level': level, role: level === 'bad' ? 'alert' : null }, ...words);

export const fuller = (error, hint) => (!hint ? error : hint.startsWith(error) ? hint : `${error}: ${hint}`);

/** An error in words, with what to do next. */
export const reason = (error) => [String(error?.message ?? error), error?.hint ? h('p.small', null, error.hint) : null];
export const failure = (error) => note('bad', reason(error));

export const section = (title, ...inside) => h('section.card.stack', { 'aria-label': title }, h('h2', null, title), inside);

export const by = (...commands) => h('p.small.soft', null, 'On the command line: ', commands.map((command, at) => [at ? ', ' : '', h('code', null, command)]).flat());
