// Views and their filters are in the address, so that it can be sent to a colleague.

import { signal } from './signal.js';

function decode(text) {
	try {
		return decodeURIComponent(text);
	} catch {
		return text;
	}
}

function read() {
	const [path, query] = location.hash.replace(/^#\/?/, '').split('?', 2);
	const [view, ...rest] = path.split('/').map(decode);
	return { view: view || 'home', rest, query: new URLSearchParams(query) };
}

export const place = signal(read());

export const filter = (name) => place.value.query.get(name) ?? '';

export function query(members) {
	const made = new URLSearchParams(Object.entries(members).filter(([, value]) => value));
	return made.size ? `?${made}` : '';
}

/** The address of a view: `link('calls', { outcome: 'error' })`. */
export const link = (...parts) => `#/${parts.filter((part) => typeof part === 'string').map(encodeURIComponent).join('/')}${query(Object.assign({}, ...parts.filter((part) => typeof part === 'object')))}`;

/** Changes filters without a new entry in the history. */
export function refine(changes) {
	const { view, rest, query } = read();
	history.replaceState(null, '', link(view, ...rest, { ...Object.fromEntries(query), ...changes }));
	place.value = read();
}

addEventListener('hashchange', () => {
	place.value = read();
});
