// Tables, texts to copy, and dialogs: what most views need, and the first does not.

import { ask, get } from './api.js';
import { fill, h, keyed, plain } from './dom.js';
import { count, failure, note, reason } from './ui.js';

/** The time of the day here; the whole as a title. */
export function clock(at) {
	const date = new Date(at ?? NaN);
	if (isNaN(+date)) return h('span', null, '–');
	const today = date.toDateString() === new Date().toDateString();
	const time = date.toTimeString().slice(0, 8);
	return h('time', { datetime: at, title: date.toString() }, today ? time : `${date.toLocaleDateString('en-CA')} ${time}`);
}

const toasts = h('div.toasts', { role: 'status' });
export function say(level, ...words) {
	if (!toasts.isConnected) document.body.append(toasts);
	const shown = note(level, ...words);
	shown.removeAttribute('role');
	toasts.append(shown);
	while (toasts.childElementCount > 4) toasts.firstElementChild.remove();
	setTimeout(() => shown.remove(), level === 'bad' ? 12_000 : 6000);
}
export const complain = (error) => say('bad', reason(error));

export function button(words, does, kind = '', props = {}) {
	const made = h('button', { class: kind, ...props, onclick: async () => {
		made.disabled = true;
		await Promise.try(does).catch(complain);
		made.disabled = false;
	} }, words);
	return made;
}

export const copy = (text, words = 'Copy') => button(words, async () => {
	await navigator.clipboard.writeText(text());
	say('good', 'Copied');
}, 'quiet');

export const block = (said, what) => h('pre.code', { tabindex: 0, role: 'group', 'aria-label': what }, plain(said, 200_000));
export const code = (said, what) => h('div.stack.tight', null, block(said, what), h('div', null, copy(() => said)));

/** Says what a change did, and offers to undo it. */
export async function done(change, then = () => {}) {
	const { did, undo } = await change;
	say('good', did, undo?.path && !undo.path.startsWith('config') ? [' ', button('Undo', () => done(ask(undo.method, undo.path, undo.method === 'POST' ? {} : undefined).then((answer) => answer.json()), then), 'quiet')] : null);
	await then();
}

export const facts = (pairs) => h('dl.kv', null, pairs.map((pair) => pair && [h('dt', null, pair[0]), h('dd', null, pair[1])]));

export const field = (label, control, help) => h('label.field', null, h('span.label', null, label), control, help ? h('span.help', null, help) : null);

export function sending(words, does, ...inside) {
	const wrong = h('div', { role: 'alert' });
	const go = h('button.main', { type: 'submit' }, words);
	return h('form.stack', { onsubmit: async (event) => {
		event.preventDefault();
		go.disabled = true;
		fill(wrong);
		await does().catch((error) => fill(wrong, failure(error)));
		go.disabled = false;
	} }, inside, wrong, h('div', null, go));
}

/** A dialog; gives whether it was closed with yes. */
export function modal(title, inside) {
	return new Promise((resolve) => {
		const box = h('dialog', { 'aria-label': title, onclose: () => {
			box.remove();
			resolve(box.returnValue === 'yes');
		} });
		document.body.append(fill(box, h('div.stack', null, h('h2', null, title), inside(() => box.close('yes'), box))));
		box.showModal();
	});
}

export const confirm = (title, yes, ...inside) => modal(title, (close, box) => [addEventListener('hashchange', () => box.close(), { once: true }), inside, h('div.row', null, h('button.main', { onclick: close }, yes), h('button', { onclick: () => box.close() }, 'Cancel'))]);

export function pickServer(chosen, change) {
	const option = (value, text) => h('option', { value, selected: value === chosen }, text);
	const pick = h('select', { 'aria-label': 'Server', onchange: () => change(pick.value) }, option(chosen, chosen || 'All servers'));
	void get('servers').then(({ rows }) => fill(pick, option('', 'All servers'), rows.map(({ name }) => option(name, name))), () => {});
	return pick;
}

export const text = (label, member, none = '–') => ({ label, by: (row) => row[member] ?? '', cell: (row) => row[member] ?? none });

export const figure = (label, member, show = count) => ({ label, num: true, by: (row) => row[member] ?? -1, cell: (row) => show(row[member]) });

/** Columns with `by` sort; the first is the row's heading. @param {Column[]} columns */
export function table(caption, columns, key, none) {
	let rows = [];
	let sorted = -1;
	let down = false;
	const body = h('tbody', { role: 'rowgroup' });
	const heads = columns.map((column, at) => h('th', { scope: 'col', role: 'columnheader', class: column.num ? 'num' : '' }, column.by ? h('button', { onclick: () => {
		down = sorted === at ? !down : Boolean(column.num);
		sorted = at;
		heads.forEach((other, index) => (index === at ? other.setAttribute('aria-sort', down ? 'descending' : 'ascending') : other.removeAttribute('aria-sort')));
		draw();
	} }, column.label) : column.label || h('span.vh', null, 'Actions')));
	const line = (row) => h('tr', { role: 'row' }, columns.map((column, at) => h(at ? 'td' : 'th', { role: at ? 'cell' : 'rowheader', scope: at ? null : 'row', class: (column.num ? 'num ' : '') + (column.label ? '' : 'acts ') + (column.blank?.(row) ? 'blank' : ''), 'data-label': at ? column.label : null }, h('div', null, column.cell(row)))));
	const draw = () => {
		const by = columns[sorted]?.by;
		const order = by ? rows.toSorted((a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0) * (down ? -1 : 1)) : rows;
		const active = document.activeElement;
		keyed(body, order, key, (row, old) => {
			if (old?.row === row) return old;
			const made = line(row);
			made.row = row;
			// The focus stays in a row that is drawn anew.
			if (old?.contains(active)) queueMicrotask(() => made.querySelector('a,button')?.focus({ preventScroll: true }));
			return made;
		});
	};
	const whole = h('div.scroll', null, h('table', { role: 'table' }, h('caption.vh', null, caption), h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, heads)), body));
	const node = h('section.card.flush', { 'aria-label': caption });
	return { node, show: (next) => {
		rows = next;
		draw();
		if (!rows.length) fill(node, none());
		else if (whole.parentNode !== node) fill(node, whole);
	} };
}
