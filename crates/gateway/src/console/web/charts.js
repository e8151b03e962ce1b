// Charts of at most 60 points and the waterfall of a call, drawn as SVG by hand.

import { h, svg } from './dom.js';
import { took } from './ui.js';

const HEIGHT = 160;
const LEFT = 44;

// A round number at or above `value`.
function ceiling(value) {
	if (!(value > 0)) return 1;
	const power = 10 ** Math.floor(Math.log10(value));
	return [1, 2, 2.5, 5, 10].find((step) => step * power >= value) * power;
}

function chart({ until, stepSeconds, ...of }, title, unit, ...lines) {
	// As wide as it is shown, so that its letters stay legible.
	const width = innerWidth < 640 ? 330 : innerWidth > 2200 ? 1050 : 600;
	const points = Math.max(2, of[lines[0][1]].length);
	const top = ceiling(Math.max(0, ...lines.flatMap(([, member]) => of[member].map(Number))));
	const x = (at) => LEFT + (at / (points - 1)) * (width - LEFT - 6);
	const y = (value) => 10 + (1 - value / top) * (HEIGHT - 34);
	const path = (values) => values.map((value, at) => (value === null ? '' : `${at && values[at - 1] !== null ? 'L' : 'M'}${x(at + points - values.length).toFixed(1)} ${y(value).toFixed(1)}h0`)).join('');
	const time = (at) => new Date(+new Date(until) - (points - 1 - at) * stepSeconds * 1000).toTimeString().slice(0, 5);
	const first = of[lines[0][1]];
	const known = first.some((value) => value !== null);
	const label = (at, over, words, anchor) => svg('text', { x: at, y: over, 'text-anchor': anchor }, words);
	return h('div.card', null, h('figure.stack',
		null, h('figcaption.row', null, h('h2.grow', null, title), h('div.legend', null, lines.map(([name, , kind]) => h('span', null, svg('svg', { class: 'chart', viewBox: '0 0 26 10', 'aria-hidden': 'true' }, svg('path', { class: kind, d: 'M0 5h26' })), name)))),
		known ? null : h('p.soft.small', null, 'The first point comes after a minute with calls.'),
		svg('svg', { class: 'chart', viewBox: `0 0 ${width} ${HEIGHT}`, role: 'img', 'aria-label': `${title}, the last ${Math.round((points * stepSeconds) / 60)} minutes; now: ${lines.map(([name, member]) => `${name} ${unit(of[member].at(-1) ?? 0)}`).join(', ')}` },
			[0, 0.5, 1].map((part) => [svg('path', { class: 'grid-line', d: `M${LEFT} ${y(top * part)}H${width - 6}` }), label(LEFT - 8, y(top * part) + 4, unit(top * part), 'end')]),
			label(LEFT, HEIGHT - 6, time(0)), label(width - 6, HEIGHT - 6, time(points - 1), 'end'),
			known && !first.includes(null) ? svg('path', { class: 'area', d: `${path(first)}V${y(0)}H${x(points - first.length)}Z` }) : null,
			lines.toReversed().map(([, member, kind]) => svg('path', { class: kind, d: path(of[member]) })))));
}

const PARTS = { gateway: 'Gateway', queue: 'Waited in the queue', server: 'Server', question: 'Question to the user', way_back: 'Way back' };

export function waterfall(spans) {
	const whole = Math.max(0.001, ...spans.map((part) => part.startMs + part.ms));
	const wide = (ms) => (ms / whole) * 1000;
	return h('div.fall', { role: 'list', 'aria-label': 'Parts of the call' }, spans.map((part) => [
		h('div.any.small', { role: 'listitem' }, PARTS[part.name] ?? part.name, part.server ? ` ${part.server}` : '', h('span.vh', null, ` from ${took(part.startMs)}, for ${took(part.ms)}`)),
		svg('svg', { viewBox: '0 0 1000 10', preserveAspectRatio: 'none', 'aria-hidden': 'true', 'data-part': part.name }, svg('rect', { x: wide(part.startMs), y: 0, width: Math.max(4, wide(part.ms)), height: 10 })),
		h('div.num.small', { 'aria-hidden': 'true' }, took(part.ms)),
	]));
}

const short = (value, over, more) => (value >= 1000 ? `${+(value / 1000).toFixed(1)}${over}` : +value.toFixed(1) + more);
const whole = (value) => short(value, 'k', '');

export const both = (of) => [
	chart(of, 'Calls a minute', whole, ['all', 'calls', 'a'], ['failed', 'errors', 'b']),
	chart(of, 'Time of calls', (ms) => short(ms, ' s', ' ms'), ['half', 'p50Ms', 'a'], ['95 %', 'p95Ms', 'b'], ['99 %', 'p99Ms', 'c']),
];

/** Sessions and memory, if this user may see them. */
export const process = (of) => [
	of.sessions && chart(of, 'Sessions', whole, ['open', 'sessions', 'a']),
	of.memoryBytes && chart(of, 'Memory of the gateway', (value) => `${Math.round(value / 1_048_576)} MiB`, ['resident', 'memoryBytes', 'a']),
];
