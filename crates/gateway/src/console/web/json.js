// <json-tree>: a JSON value that opens by hand, drawn as far as it is open.

import { fill, h, plain } from './dom.js';

const CHILDREN = 200;

function branch(value, name, level) {
	const label = name ? [h('span.k', null, name), ': '] : [];
	if (value === null || typeof value !== 'object') {
		const text = typeof value === 'string' ? JSON.stringify(value) : String(value);
		return h('div', null, label, h('span', { class: typeof value === 'string' ? 's' : 'n' }, plain(text, 20_000)));
	}
	const isArray = Array.isArray(value);
	const size = isArray ? value.length : Object.keys(value).length;
	if (!size) return h('div', null, label, isArray ? '[]' : '{}');
	const leafs = h('div.leafs');
	let from = 0;
	const more = () => {
		const members = isArray ? value.slice(from, from + CHILDREN).map((item, at) => [String(from + at), item]) : Object.entries(value).slice(from, from + CHILDREN);
		leafs.lastElementChild?.tagName === 'BUTTON' && leafs.lastElementChild.remove();
		leafs.append(...members.map(([key, item]) => branch(item, key, level + 1)));
		from += members.length;
		if (from < size) leafs.append(h('button.quiet', { onclick: more }, `${(size - from).toLocaleString('en')} more`));
	};
	const box = h('details', { ontoggle: () => box.open && !from && more() }, h('summary', null, label, isArray ? `[ ${size} ]` : `{ ${size} }`), leafs);
	if (level < 2 && size <= 50) {
		more();
		box.open = true;
	}
	return box;
}

export function tree(value, label) {
	const node = h('div.tree', { role: 'group', 'aria-label': label });
	fill(node, branch(value, '', 0));
	return node;
}
