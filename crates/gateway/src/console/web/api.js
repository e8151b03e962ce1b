// Asks the gateway for what is not MCP: JSON below /console/api, and one feed.

import { signal } from './signal.js';

/** Who is signed in, as `me` says; null until then. */
export const me = signal(null);
export const online = signal(true);
/** What of calls is captured now: everybody is told. */
export const captures = signal([]);
/** One of them in words, with the time of the day here. */
export const kept = ({ text, until }) => text.replace(until, new Date(until).toTimeString().slice(0, 5));
/** The digest that this page was loaded with. */
export const digest = import.meta.url.split('/').at(-2) ?? '';

export const has = (name) => Boolean(me.value?.features?.includes(name));

export class Refused extends Error {
	constructor(status, error) {
		super(error.message || `the gateway answered with HTTP ${status}`);
		this.status = status;
		this.code = String(error.code ?? '');
		this.hint = String(error.hint ?? '');
	}
}

export const again = { ask: async () => false };

export async function ask(method, path, body, headers = {}) {
	const response = await fetch(`/console/api/${path}`, {
		method,
		headers: { 'X-Switchboard': 'console', ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers },
		body: body === undefined ? undefined : JSON.stringify(body),
	}).catch(() => {
		online.value = false;
		throw new Refused(0, { message: 'the gateway does not answer', hint: 'is it still running? The page comes back by itself.' });
	});
	online.value = true;
	if (response.ok) return response;
	const refused = await refusal(response);
	if (refused.code === 'sign_in_again' && (await again.ask())) return ask(method, path, body, headers);
	throw refused;
}

export async function refusal(response) {
	// A proxy between may have answered without JSON.
	const { error = {} } = await response.json().catch(() => ({}));
	const refused = new Refused(response.status, error);
	if (response.status === 401 && !['wrong', 'sign_in_again'].includes(refused.code)) me.value = null;
	return refused;
}

export const get = async (path) => (await ask('GET', path)).json();
export const post = async (path, body = {}, headers) => (await ask('POST', path, body, headers)).json();
export const remove = async (path) => (await ask('DELETE', path)).json();

/** A path whose parts are escaped: at`servers/${name}`. */
export const at = (raw, ...parts) => String.raw({ raw }, ...parts.map(encodeURIComponent));

export async function live(path) {
	const now = signal(await get(path));
	return { now, ask: () => get(path).then((fresh) => {
		now.value = fresh;
	}, () => {}) };
}
