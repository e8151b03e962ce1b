// The fields of a form that have no fields inside: text, number, boolean, choices, null and JSON.

import { fill, h, plain, texted } from './dom.js';
import { list } from './schema.js';

let ids = 0;

// Types and limits, as they stand at each field.
function limits(schema, nullable, required) {
	const said = [[schema.type].flat().filter((one) => typeof one === 'string' && one !== 'null').join(' or '), schema.format];
	const range = (low, high, unit) => {
		const [from, to] = [schema[low], schema[high]];
		if (from !== undefined && to !== undefined) said.push(`${from} to ${to}${unit}`);
		else if (from !== undefined) said.push(`at least ${from}${unit}`);
		else if (to !== undefined) said.push(`at most ${to}${unit}`);
	};
	range('minLength', 'maxLength', ' characters');
	range('minimum', 'maximum', '');
	range('minItems', 'maxItems', ' items');
	for (const [name, word] of Object.entries({ exclusiveMinimum: 'above', exclusiveMaximum: 'below', multipleOf: 'steps of' })) if (name in schema) said.push(`${word} ${schema[name]}`);
	said.push(schema.uniqueItems && 'no two alike', nullable && 'or null', required && 'required');
	return said.filter(Boolean).join(', ');
}

export function labelled({ schema, label, required, nullable }, control, isGroup = false, toggles) {
	const id = (control.id ||= `field-${(ids += 1)}`);
	const help = h('div.help', { id: `${id}-help` }, plain(schema.description ?? '', 2000), schema.pattern ? [' Pattern ', h('code', null, schema.pattern)] : null, schema['x-mcp-header'] ? ` Also sent as the header Mcp-Param-${schema['x-mcp-header']}.` : null, schema.default !== undefined && typeof schema.default !== 'object' ? [' Default ', h('code', null, JSON.stringify(schema.default)), '.'] : null);
	const wrong = h('div.wrong', { id: `${id}-wrong` });
	const name = [schema.title ?? label, schema.title && label && schema.title !== label ? h('span.type', null, label) : null];
	control.setAttribute('aria-describedby', `${id}-help ${id}-wrong`);
	if (isGroup) control.setAttribute('aria-labelledby', `${id}-label`);
	return {
		node: h('div.field', null, h('div.row.tight', null, h(isGroup ? 'span' : 'label', { id: `${id}-label`, class: 'label', htmlFor: isGroup ? undefined : id }, name), h('span.type.grow', null, limits(schema, nullable, required)), schema.deprecated ? h('span.chip.warn', null, 'deprecated') : null, toggles), help, control, wrong),
		complain: (text) => {
			fill(wrong, text);
			control.setAttribute('aria-invalid', String(Boolean(text)));
		},
	};
}

// A leaf from a control. Null, and an empty text, are sent if their switch is pressed.
function leaf(form, about, control, does) {
	let instead;
	const turn = (value) => {
		instead = value;
		for (const { button, sends } of switches) button.setAttribute('aria-pressed', String(sends === value));
		control.toggleAttribute('disabled', value !== undefined || about.schema.readOnly === true);
	};
	const switches = [about.nullable && [null, 'null'], does.canBeEmpty && ['', '""']].filter(Boolean).map(([sends, text]) => ({ sends, button: h('button.switch', { 'aria-label': `Send ${sends === null ? 'null' : 'an empty text'} as ${about.label}`, title: `send ${text}`, onclick: () => {
		turn(instead === sends ? undefined : sends);
		form.change();
	} }, text) }));
	const { node, complain } = labelled(about, control, does.isGroup, switches.map(({ button }) => button));
	turn(undefined);
	for (const kind of ['input', 'change']) {
		node.addEventListener(kind, () => {
			complain('');
			form.change();
		});
	}
	return {
		node,
		get: () => (instead === undefined ? does.read() : instead),
		set: (value) => {
			turn(switches.some(({ sends }) => sends === value) ? value : undefined);
			does.write(value ?? undefined);
			complain('');
		},
		check: () => {
			const text = instead !== undefined || about.schema.readOnly ? '' : does.wrong ? does.wrong() : control.validationMessage;
			complain(text);
			return text ? [{ text, label: about.label, at: control }] : [];
		},
	};
}

const INPUTS = { date: 'date', 'date-time': 'datetime-local', time: 'time', email: 'email', uri: 'url', url: 'url', password: 'password' };

export function text(form, about) {
	const { schema, required } = about;
	const type = INPUTS[schema.format] ?? (schema.writeOnly ? 'password' : 'text');
	const examples = list(schema.examples).filter((one) => typeof one === 'string').slice(0, 50);
	const choices = examples.length > 1 ? h('datalist', { id: `field-${(ids += 1)}` }, examples.map((value) => h('option', { value }))) : null;
	let lines = schema.maxLength > 200 || texted(schema.default).includes('\n');
	const short = h('input', { type, required, step: /time/.test(type) ? 1 : null, list: choices?.id, placeholder: examples[0], autocomplete: 'off' });
	const long = h('textarea', { rows: 4, required });
	const control = () => (lines ? long : short);
	const lengthen = () => {
		if (lines) return;
		lines = true;
		for (const name of ['id', 'aria-describedby']) long.setAttribute(name, short.getAttribute(name) ?? '');
		long.value = short.value;
		short.replaceWith(long);
	};
	const field = leaf(form, about, control(), {
		canBeEmpty: !(schema.minLength > 0) && type === 'text',
		read: () => {
			const { value } = control();
			if (!value) return undefined;
			if (type === 'datetime-local') return new Date(value).toISOString();
			return type === 'time' && value.length === 5 ? `${value}:00Z` : value;
		},
		write: (value) => {
			let shown = typeof value === 'string' ? value : '';
			const date = new Date(shown);
			if (type === 'datetime-local') shown = isNaN(+date) ? '' : new Date(+date - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
			if (shown.includes('\n')) lengthen();
			control().value = type === 'time' ? shown.slice(0, 8) : shown;
		},
		// The pattern of a server is not run here: it could keep the page busy for ever.
		wrong: () => {
			const size = [...control().value].length;
			return control().validationMessage || (size && size < schema.minLength ? `At least ${schema.minLength} characters; this has ${size}.` : size > schema.maxLength ? `At most ${schema.maxLength} characters; this has ${size}.` : '');
		},
	});
	if (choices) field.node.append(choices);
	// A pasted text with lines needs a larger field.
	short.addEventListener('paste', (event) => {
		const pasted = event.clipboardData?.getData('text/plain') ?? '';
		if (type !== 'text' || !pasted.trim().includes('\n')) return;
		event.preventDefault();
		lengthen();
		long.value += pasted;
		long.focus();
		form.change();
	});
	return { ...field, check: () => field.check().map((problem) => ({ ...problem, at: control() })) };
}

export function number(form, about) {
	const { schema, required } = about;
	const isInteger = [schema.type].flat().includes('integer');
	const control = h('input', { type: 'number', required, step: schema.multipleOf > 0 ? schema.multipleOf : isInteger ? 1 : 'any', min: schema.minimum, max: schema.maximum, placeholder: list(schema.examples)[0], inputmode: isInteger ? 'numeric' : 'decimal' });
	return leaf(form, about, control, {
		read: () => (control.value === '' ? undefined : Number(control.value)),
		write: (value) => { control.value = typeof value === 'number' ? String(value) : ''; },
		wrong: () => control.validationMessage || (control.value === '' ? '' : Number(control.value) <= schema.exclusiveMinimum ? `Must be above ${schema.exclusiveMinimum}.` : Number(control.value) >= schema.exclusiveMaximum ? `Must be below ${schema.exclusiveMaximum}.` : ''),
	});
}

export function pick(form, about, values, titles = []) {
	const same = values.map((value) => JSON.stringify(value));
	const control = h('select', { required: about.required }, h('option', { value: '' }, about.required ? 'choose …' : 'not set'), values.map((value, at) => h('option', { value: at }, titles[at] ?? (typeof value === 'string' ? value : same[at]))));
	return leaf(form, about, control, {
		read: () => (control.value === '' ? undefined : values[Number(control.value)]),
		write: (value) => { control.value = same.includes(JSON.stringify(value)) ? String(same.indexOf(JSON.stringify(value))) : ''; },
	});
}

export function boolean(form, about) {
	if (!about.required) return pick(form, about, [true, false]);
	const control = h('input', { type: 'checkbox' });
	return leaf(form, about, control, { read: () => control.checked, write: (value) => { control.checked = value === true; } });
}

export function several(form, about) {
	const { schema, required } = about;
	const boxes = list(schema.enum).map((value, at) => ({ value, box: h('input', { type: 'checkbox' }), title: list(schema.titles)[at] ?? (typeof value === 'string' ? value : JSON.stringify(value)) }));
	const chosen = () => boxes.filter(({ box }) => box.checked).map(({ value }) => value);
	return leaf(form, about, h('div.row', { role: 'group', tabindex: -1 }, boxes.map(({ box, title }) => h('label.pick', null, box, h('span.any', null, title)))), {
		isGroup: true,
		read: () => (chosen().length || required ? chosen() : undefined),
		write: (value) => { for (const one of boxes) one.box.checked = list(value).some((given) => JSON.stringify(given) === JSON.stringify(one.value)); },
		wrong: () => {
			const size = chosen().length;
			return (size || required) && size < schema.minItems ? `Choose at least ${schema.minItems}.` : size > schema.maxItems ? `Choose at most ${schema.maxItems}.` : '';
		},
	});
}

export function fixed(form, about, value) {
	const box = h('input', { type: 'checkbox', checked: about.required, disabled: about.required });
	return leaf(form, about, h('div.row', { role: 'group' }, h('label.pick', null, box, h('code', null, JSON.stringify(value)))), { isGroup: true, read: () => (box.checked ? value : undefined), write: (given) => { box.checked = about.required || given !== undefined; } });
}

/** What the form does not know: JSON, with the schema beside it. */
export function json(form, about) {
	const control = h('textarea.mono', { rows: 4, placeholder: 'JSON', required: about.required });
	const read = () => {
		try {
			return { value: control.value.trim() ? JSON.parse(control.value) : undefined };
		} catch (error) {
			return { error: String(error) };
		}
	};
	const field = leaf(form, about, control, {
		read: () => read().value,
		write: (given) => { control.value = given === undefined ? '' : JSON.stringify(given, null, 2); },
		wrong: () => control.validationMessage || read().error && `This is no JSON; ${read().error}`,
	});
	const shown = JSON.stringify(about.schema, (name, part) => (name === 'variant' ? undefined : part), 2) ?? '';
	if (shown.length > 2) field.node.append(h('details.small', null, h('summary', null, 'Schema'), h('pre.code', { tabindex: 0 }, plain(shown, 20_000))));
	return field;
}
