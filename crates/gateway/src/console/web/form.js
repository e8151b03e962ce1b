// A form from JSON Schema. What it does not know is a field of JSON.

import { fill, h } from './dom.js';
import * as leaves from './fields.js';
import { fits, isObject, list, understand, variantName } from './schema.js';

// Bounds of a form; beyond them it is JSON.
const FIELDS = 500;
const LEVELS = 12;
const BYTES = 1 << 20;
const ITEMS = 200;

/** @returns {Field} */
function make(form, raw, label, required, level) {
	const { schema, kind, nullable, variants } = understand(form.root, raw);
	const about = { schema, label, required, nullable, level };
	form.left -= 1;
	if (level > LEVELS || form.left < Object.keys(schema.properties ?? {}).length) return leaves.json(form, about);
	switch (kind) {
		case 'text': return leaves.text(form, about);
		case 'number': return leaves.number(form, about);
		case 'boolean': return leaves.boolean(form, about);
		case 'enum': return leaves.pick(form, about, schema.enum, list(schema.titles));
		case 'several': return leaves.several(form, about);
		case 'const': return leaves.fixed(form, about, schema.const);
		case 'null': return leaves.fixed(form, about, null);
		case 'json': return leaves.json(form, about);
		case 'object': return level && (!required || nullable) ? byHand(form, about, () => object(form, about)) : object(form, about);
		default: {
			const draw = () => (kind === 'choice' ? choice(form, about, variants) : items(form, about, kind));
			return nullable ? byHand(form, about, draw) : draw();
		}
	}
}

function frame(about, ...inside) {
	const box = h('div.nest', { role: 'group', tabindex: -1 }, ...inside);
	return about.level ? leaves.labelled(about, box, true) : { node: box, complain: () => {} };
}

// An optional part is opened by hand, so that recursion ends.
function byHand(form, about, draw) {
	let inner = null;
	let isNull = false;
	const name = about.label || 'a value';
	const node = h('div.stack.tight');
	const does = (work) => () => {
		work();
		form.change();
	};
	const closed = () => {
		inner = null;
		fill(node, leaves.labelled(about, h('div.row', { role: 'group', tabindex: -1 }, h('button', { onclick: does(opened) }, `Add ${name}`), about.nullable ? h('button.switch', { 'aria-pressed': String(isNull), onclick: does(() => {
			isNull = !isNull;
			closed();
		}) }, 'null') : null), true).node);
	};
	const opened = () => {
		isNull = false;
		const drawn = (inner = draw());
		fill(node, drawn.node, h('div', null, h('button.quiet', { onclick: does(closed) }, `Leave out ${name}`)));
		return drawn;
	};
	closed();
	return {
		node,
		get: () => (inner ? inner.get() : isNull ? null : undefined),
		set: (value) => {
			isNull = value === null;
			if (value === undefined || isNull) closed();
			else (inner ?? opened()).set(value);
		},
		check: () => inner?.check() ?? (about.required && !isNull ? [{ text: 'This is required.', label: about.label, at: node.querySelector('button') ?? node }] : []),
	};
}

function object(form, about) {
	const { schema, level } = about;
	const fields = Object.entries(schema.properties ?? {}).map(([name, part]) => ({ name, field: make(form, part, name, list(schema.required).includes(name), level + 1) }));
	const more = isObject(schema.additionalProperties) ? items(form, { ...about, schema: { additionalProperties: schema.additionalProperties }, label: 'more members', level: level + 1, required: false }, 'map') : null;
	let others = [];
	const extra = h('p.small.soft', { hidden: true });
	const { node } = frame(about, fields.map(({ field }) => field.node), more?.node, extra, fields.length || more || level ? null : h('p.soft', null, 'It takes no arguments.'));
	return {
		node,
		get: () => Object.fromEntries([...fields.map(({ name, field }) => [name, field.get()]), ...others, ...Object.entries(more?.get() ?? {})].filter(([, value]) => value !== undefined)),
		set: (value) => {
			const given = isObject(value) ? value : {};
			for (const { name, field } of fields) field.set(Object.hasOwn(given, name) ? given[name] : undefined);
			const unknown = Object.entries(given).filter(([name]) => !fields.some((one) => one.name === name));
			if (more) more.set(unknown.length ? Object.fromEntries(unknown) : undefined);
			else others = unknown;
			extra.hidden = !others.length;
			fill(extra, 'Also sends what only the JSON has: ', others.map(([name]) => name).join(', '));
		},
		check: () => [...fields, ...(more ? [{ field: more }] : [])].flatMap(({ field }) => field.check()),
	};
}

// Arrays, tuples and maps: fields that are added and removed.
function items(form, about, kind) {
	const { schema, level, required, label } = about;
	const isMap = kind === 'map';
	const first = kind === 'tuple' ? list(schema.prefixItems ?? schema.items) : [];
	const rest = isMap ? (isObject(schema.additionalProperties) ? schema.additionalProperties : {}) : kind === 'array' ? schema.items : schema.prefixItems ? schema.items : schema.additionalItems;
	const least = required && !isMap ? Math.min(Math.max(first.length, schema.minItems ?? 0), ITEMS) : 0;
	const most = Math.min(schema.maxItems ?? ITEMS, kind === 'tuple' && !rest ? first.length : ITEMS);
	let held = [];
	let given = required;
	const lines = h('div.stack');
	const add = h('button', { onclick: () => {
		append();
		lines.lastElementChild?.querySelector('input,select,textarea,button')?.focus();
		form.change();
	} }, isMap ? 'Add a member' : 'Add an item');
	const { node, complain } = frame(about, lines, h('div', null, add));
	const append = (called = '') => {
		const which = isMap ? 'value' : `${label || 'item'} ${held.length + 1}`;
		const field = make(form, first[held.length] ?? rest ?? {}, which, true, level + 1);
		const name = h('input', { value: called, 'aria-label': `Name in ${label || 'the object'}`, oninput: () => form.change() });
		const item = { field, name, line: h(isMap ? 'div.item.pair' : 'div.item', null, isMap ? h('div.field', null, h('span.label', null, 'name'), name) : null, field.node, h('button.quiet', { 'aria-label': `Remove ${called || which}`, onclick: () => {
			held = held.filter((one) => one !== item);
			item.line.remove();
			given = required || held.length > 0;
			add.disabled = false;
			add.focus();
			form.change();
		} }, 'Remove')) };
		held.push(item);
		lines.append(item.line);
		given = true;
		add.disabled = held.length >= most;
		return field;
	};
	while (held.length < least) append();
	return {
		node,
		get: () => {
			if (!given) return undefined;
			return isMap ? Object.fromEntries(held.filter(({ name }) => name.value).map(({ name, field }) => [name.value, field.get() ?? null])) : held.map(({ field }) => field.get() ?? null);
		},
		set: (value) => {
			held = [];
			fill(lines);
			add.disabled = false;
			if (isMap) for (const [name, one] of Object.entries(isObject(value) ? value : {}).slice(0, ITEMS)) append(name).set(one);
			else for (const one of list(value).slice(0, ITEMS)) append().set(one);
			while (value === undefined && held.length < least) append();
			given = required || value !== undefined;
		},
		check: () => {
			const size = held.length;
			const text = given && size < schema.minItems ? `At least ${schema.minItems} items.` : size > schema.maxItems ? `At most ${schema.maxItems} items.` : schema.uniqueItems && new Set(held.map(({ field }) => JSON.stringify(field.get()))).size < size ? 'No two items may be alike.' : isMap && held.some(({ name }) => !name.value) ? 'Each member needs a name.' : '';
			complain(text);
			return [...(text ? [{ text, label, at: add }] : []), ...held.flatMap(({ field }) => field.check())];
		},
	};
}

function choice(form, about, variants) {
	const { level, required, label } = about;
	const begin = required || !level ? 0 : -1;
	let inner = null;
	const inside = h('div');
	const picker = h('select', { 'aria-label': `Kind of ${label || 'input'}`, onchange: () => {
		show(picker.value === '' ? -1 : Number(picker.value));
		form.change();
	} }, begin ? h('option', { value: '' }, 'not set') : null, variants.map((one, at) => h('option', { value: at }, variantName(one, at))));
	const show = (at) => {
		picker.value = at < 0 ? '' : String(at);
		const whole = variants[at];
		// The words of the whole stand above the choice, those of the variant at its fields.
		inner = whole ? make(form, { ...whole, title: undefined, description: whole.variant?.description }, label, true, level && level + 1) : null;
		fill(inside, inner?.node);
	};
	const { node } = frame(about, picker, inside);
	show(begin);
	return {
		node,
		get: () => inner?.get(),
		set: (value) => {
			if (value === undefined) return show(begin);
			const fitting = (one) => one && fits(form.root, one, value);
			if (!fitting(variants[Number(picker.value || -1)])) show(Math.max(0, variants.findIndex(fitting)));
			inner?.set(value);
		},
		check: () => inner?.check() ?? [],
	};
}

export function defaults(root, raw, level = 0) {
	const { schema, kind } = understand(root, raw);
	if (schema.default !== undefined && schema.default !== null) return schema.default;
	if (kind !== 'object' || level > 6) return undefined;
	const members = Object.entries(schema.properties ?? {}).map(([name, part]) => [name, defaults(root, part, level + 1)]).filter(([, value]) => value !== undefined);
	return members.length ? Object.fromEntries(members) : undefined;
}

/** The form. `raw` may be anything: what is no schema takes any members. */
export function form(raw, change = () => {}) {
	const size = JSON.stringify(raw ?? {}).length;
	const root = isObject(raw) && Object.keys(raw).length && size <= BYTES ? raw : { type: 'object', additionalProperties: {} };
	const own = { root, left: FIELDS, change };
	const field = make(own, root, '', true, 0);
	const wrong = h('div.note', { 'data-level': 'bad', role: 'alert', hidden: true });
	field.set(defaults(root, root));
	return {
		node: h('div.root.stack', null, wrong, field.node),
		get: () => field.get(),
		set: field.set,
		/** Whether the values may be sent; says at each field, and on top, why not. */
		check: () => {
			const problems = field.check();
			wrong.hidden = !problems.length;
			fill(wrong, h('ul.bare', null, problems.slice(0, 20).map(({ text, label, at }) => h('li', null, h('button.quiet', { onclick: () => at.focus() }, label || 'input'), ' ', text))));
			return !problems.length;
		},
	};
}
