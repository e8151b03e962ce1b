// Reads JSON Schema (2020-12 and draft 7) as far as a form can show it.

import { texted } from './dom.js';

/** Levels of references and of `allOf` that are followed. */
const DEEP = 24;
const VARIANTS = 50;
/** Keywords that are a text or a number; with anything else they are left out. */
const SCALAR = /^(type|title|description|format|pattern|x-mcp-header|multipleOf|(min|max|exclusiveM).+)$/;

export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

// What `#/a/b` points to.
function pointed(root, ref) {
	if (ref === '#') return root;
	if (!ref.startsWith('#')) return undefined;
	if (!ref.startsWith('#/')) {
		const parts = { ...root.definitions, ...root.$defs };
		return Object.values(parts).find((part) => part?.$anchor === ref.slice(1) || part?.$id === ref);
	}
	let at = root;
	for (const step of ref.slice(2).split('/')) {
		const name = decodeURIComponent(step.replace(/%(?![0-9a-f]{2})/gi, '%25')).replaceAll('~1', '/').replaceAll('~0', '~');
		if (!at || typeof at !== 'object' || !Object.hasOwn(at, name)) return undefined;
		at = at[name];
	}
	return at;
}

// Two schemas that both hold.
function merged(a, b) {
	const both = { ...a, ...b };
	if (a.properties || b.properties) {
		both.properties = { ...a.properties };
		for (const [name, part] of Object.entries(b.properties ?? {})) both.properties[name] = isObject(both.properties[name]) && isObject(part) ? merged(both.properties[name], part) : part;
	}
	if (a.required || b.required) both.required = [...new Set([...list(a.required), ...list(b.required)])];
	if (a.enum && b.enum) both.enum = a.enum.filter((one) => b.enum.includes(one));
	for (const name of ['minimum', 'minLength', 'minItems', 'maximum', 'maxLength', 'maxItems']) {
		if (typeof a[name] === 'number' && typeof b[name] === 'number') both[name] = Math[name.startsWith('min') ? 'max' : 'min'](a[name], b[name]);
	}
	return both;
}

export const list = (value) => (Array.isArray(value) ? value : []);

// Without `$ref` and `allOf` at its top; `refs` were followed.
export function resolve(root, schema, refs = [], level = 0) {
	if (!isObject(schema) || level > DEEP) return schema === false ? { not: {} } : {};
	let own = Object.fromEntries(Object.entries(schema).filter(([name, value]) => typeof value !== 'object' || !SCALAR.test(name) || (name === 'type' && Array.isArray(value))));
	if (typeof own.$ref === 'string') {
		const { $ref, ...beside } = own;
		const seen = refs.includes($ref) && level > 0;
		refs.push($ref);
		const target = seen ? undefined : pointed(root, $ref);
		own = target === undefined ? { ...beside, unknownRef: $ref } : merged(resolve(root, target, refs, level + 1), beside);
	}
	if (Array.isArray(own.allOf)) {
		const { allOf, ...beside } = own;
		own = allOf.slice(0, VARIANTS).reduce((all, part) => merged(all, resolve(root, part, refs, level + 1)), {});
		own = merged(own, beside);
	}
	return own;
}

// The types that it names, or that its keywords are about.
function types(schema) {
	if (typeof schema.type === 'string') return [schema.type];
	if (Array.isArray(schema.type)) return schema.type.filter((one) => typeof one === 'string');
	if (schema.properties || schema.additionalProperties || schema.required) return ['object'];
	if (schema.items || schema.prefixItems) return ['array'];
	return [];
}

// `{ schema, kind, nullable }`: null is taken out of a type and of a choice of two.
export function understand(root, raw, refs = []) {
	let schema = resolve(root, raw, refs);
	let nullable = schema.nullable === true;
	const choice = list(schema.oneOf).length ? 'oneOf' : list(schema.anyOf).length ? 'anyOf' : '';
	if (choice) {
		const { [choice]: all, ...beside } = schema;
		const variants = all.slice(0, VARIANTS).map((one) => resolve(root, one, refs));
		const rest = variants.filter((one) => !(one.type === 'null' || one.const === null));
		nullable ||= rest.length < variants.length;
		if (rest.length && rest.every((one) => 'const' in one)) return { schema: { ...beside, enum: rest.map((one) => one.const), titles: rest.map((one) => one.title ?? one.description) }, kind: 'enum', nullable, variants: [] };
		if (rest.length === 1) {
			const inner = understand(root, merged(beside, rest[0]), refs);
			return { ...inner, nullable: nullable || inner.nullable };
		}
		return { schema: beside, kind: 'choice', nullable, variants: rest.map((one) => ({ ...merged(beside, one), variant: one })) };
	}
	const named = types(schema).filter((one) => one !== 'null');
	if (types(schema).length > named.length) nullable = true;
	const as = (kind) => ({ schema, kind, nullable, variants: [] });
	if ('const' in schema) return as('const');
	if (Array.isArray(schema.enum)) {
		if (schema.enum.includes(null)) nullable = true;
		schema = { ...schema, enum: schema.enum.filter((one) => one !== null), titles: schema.enumNames };
		return schema.enum.length <= 1000 ? as('enum') : as('json');
	}
	if (schema.unknownRef || schema.not || schema.if || schema.patternProperties || schema.dependentSchemas) return as(named[0] === 'object' && schema.properties && !schema.unknownRef ? 'object' : 'json');
	if (named.length > 1) return { schema, kind: 'choice', nullable, variants: named.map((type) => ({ ...schema, type, variant: { title: type } })) };
	switch (named[0]) {
		case 'string': return as('text');
		case 'number': case 'integer': return as('number');
		case 'boolean': return as('boolean');
		case 'object': return as(Object.keys(schema.properties ?? {}).length || schema.additionalProperties === false || (schema.properties && !schema.additionalProperties) ? 'object' : 'map');
		case 'array': {
			if (Array.isArray(schema.prefixItems) || Array.isArray(schema.items)) return as('tuple');
			const item = understand(root, schema.items ?? {}, [...refs]);
			if (item.kind === 'enum' && schema.uniqueItems !== false) return { ...as('several'), schema: { ...schema, enum: item.schema.enum, titles: item.schema.titles } };
			return as('array');
		}
		default: return nullable && types(schema).length ? as('null') : as('json');
	}
}

export function variantName(whole, at) {
	const own = whole.variant ?? whole;
	if (own.title) return texted(own.title);
	const names = Object.entries(own.properties ?? {});
	const fixed = names.find(([, part]) => isObject(part) && 'const' in part);
	if (fixed) return `${fixed[0]}: ${texted(fixed[1].const)}`;
	if (names.length) return names.map(([name]) => name).slice(0, 3).join(', ') + (names.length > 3 ? ' …' : '');
	if (list(own.required).length) return `with ${own.required.slice(0, 3).map(texted).join(', ')}`;
	if ('const' in own) return texted(own.const);
	return typeof own.type === 'string' ? own.type + (isObject(own.items) && own.items.type ? ` of ${texted(own.items.type)}` : '') : `choice ${at + 1}`;
}

/** Whether a value could be of this schema: enough to choose between variants. */
export function fits(root, raw, value, level = 0) {
	const { schema, kind, nullable, variants } = understand(root, raw);
	if (level > 6) return true;
	if (value === null) return nullable || kind === 'null' || kind === 'json' || schema.const === null;
	if (kind === 'choice') return variants.some((one) => fits(root, one, value, level + 1));
	if (kind === 'const') return JSON.stringify(schema.const) === JSON.stringify(value);
	if (kind === 'enum') return schema.enum.some((one) => JSON.stringify(one) === JSON.stringify(value));
	if (kind === 'text') return typeof value === 'string';
	if (kind === 'boolean') return typeof value === 'boolean';
	if (kind === 'number') return typeof value === 'number' && (schema.type !== 'integer' || Number.isInteger(value));
	if (kind === 'array' || kind === 'tuple' || kind === 'several') return Array.isArray(value) && (kind !== 'array' || value.slice(0, 5).every((one) => fits(root, schema.items ?? {}, one, level + 1)));
	if (kind === 'object' || kind === 'map') {
		if (!isObject(value)) return false;
		const known = schema.properties ?? {};
		if (list(schema.required).some((name) => !Object.hasOwn(value, name))) return false;
		return Object.entries(value).every(([name, one]) => (Object.hasOwn(known, name) ? fits(root, known[name], one, level + 1) : schema.additionalProperties !== false));
	}
	return true;
}
