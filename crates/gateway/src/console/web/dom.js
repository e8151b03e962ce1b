// Makes nodes, and never markup: what a server says can only become text.

/** Set as properties, because attributes only say how these began. */
const PROPERTIES = ['value', 'checked', 'selected', 'disabled', 'readOnly', 'open', 'htmlFor', 'hidden'];

function equip(node, props) {
	for (const [name, value] of Object.entries(props)) {
		if (value == null || value === false) continue;
		if (typeof value === 'function') node.addEventListener(name.slice(2), value);
		else if (PROPERTIES.includes(name)) node[name] = value;
		else node.setAttribute(name, value === true ? '' : /^(aria-label|title|alt)$/.test(name) ? words(value) : texted(value));
	}
}

/** An HTML element: `h('p.soft', { id: 'x' }, 'text')`. Props always have their place: what a server says stands behind it. @type {Make} */
export const h = (tag, props, ...children) => {
	if (props && (typeof props !== 'object' || props instanceof Node || Array.isArray(props))) throw new TypeError(`the props of ${tag} are missing: write null`);
	const [name, ...classes] = tag.split('.');
	const node = /** @type {any} */ (document.createElement(name));
	if (classes.length) node.className = classes.join(' ');
	if (name === 'button') node.type = 'button';
	fill(node, children);
	equip(node, props ?? {}); // After its children: the value of a select is one of them.
	return node;
};

export function svg(tag, props, ...children) {
	const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
	equip(node, props);
	return fill(node, children);
}

export function fill(node, ...children) {
	node.replaceChildren(...children.flat(9).flatMap((leaf) => (leaf == null || leaf === false ? [] : leaf instanceof Node ? leaf : plain(leaf))));
	return node;
}

/** Makes the children of `parent` those of `items`; nodes that stay keep their focus. */
export function keyed(parent, items, key, draw) {
	const before = new Map([...parent.children].map((node) => [node.itemKey, node]));
	let place = parent.firstElementChild;
	for (const item of items) {
		const name = key(item);
		const old = before.get(name);
		const node = draw(item, old);
		node.itemKey = name;
		before.delete(name);
		if (old && old !== node) {
			if (place === old) place = node;
			old.replaceWith(node);
		}
		if (node === place) place = place.nextElementSibling;
		else parent.insertBefore(node, place);
	}
	for (const node of before.values()) node.remove();
}

/** Marks in one text; beyond them its hidden characters are left out. */
const MARKS = 200;

/** `String` of an object may throw. */
export const texted = (value) => (value && typeof value === 'object' ? JSON.stringify(value) : String(value ?? ''));

/** The text as nodes, with hidden characters as visible marks, and cut at `most`. */
export function plain(text, most = 1000) {
	const all = texted(text);
	const shown = all.slice(0, most);
	const nodes = [];
	let from = 0;
	for (const found of shown.matchAll(HIDDEN)) {
		if (nodes.length > 2 * MARKS) break;
		const code = `U+${found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
		nodes.push(new Text(shown.slice(from, found.index)), h('span.mark', { title: `hidden character ${code}` }, code));
		from = found.index + found[0].length;
	}
	nodes.push(new Text(nodes.length > 2 * MARKS ? shown.slice(from).replace(HIDDEN, '') : shown.slice(from)));
	if (all.length > most) nodes.push(new Text(` … ${(all.length - most).toLocaleString('en')} more characters`));
	return nodes;
}

// Controls but tab and line feed, soft hyphen, zero width, direction, invisible operators, tags.
export const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0]|\udb40[\udc00-\udfff]/g;

/** The same as one string, for places that take no nodes. */
export const words = (text, most = 200) => plain(text, most).map((part) => part.textContent).join('');

export const whenIdle = (work) => ('requestIdleCallback' in window ? requestIdleCallback(() => work(), { timeout: 3000 }) : setTimeout(work, 300));
