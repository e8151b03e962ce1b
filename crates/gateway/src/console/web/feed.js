// The feed of the gateway: one stream a tab, closed while the tab is hidden.

import { captures, get, me, online } from './api.js';
import { query } from './router.js';
import { effect } from './signal.js';

const AGAIN_MS = 1000;

/**
 * Follows the feed while the tab is seen: browsers give a host six connections. Gives what ends it.
 * `filters` gives the views and the filters of calls, `again` is called after each gap, `on` has what hears each event.
 */
export function feed(filters, again, on) {
	let source = null;
	let timer = 0;
	let ended = false;
	const close = () => {
		clearTimeout(timer);
		source?.close();
		source = null;
	};
	const open = () => {
		if (ended || source || document.hidden || !me.held) return;
		const own = (source = new EventSource(`/console/feed${query(filters())}`));
		let before = false;
		own.onopen = () => {
			online.value = true;
			if (before) again();
			before = true;
		};
		own.onerror = async () => {
			if (own.readyState !== EventSource.CLOSED) {
				online.value = false;
				return;
			}
			close();
			// The reason is not in the event: `me` has it.
			await get('me').then((fresh) => {
				me.value = fresh;
				again();
			}, () => {});
			if (me.held) timer = setTimeout(open, AGAIN_MS);
		};
		for (const [name, heard] of Object.entries({ reset: again, notice, ...on, end: stopped })) own.addEventListener(name, (event) => heard(JSON.parse(event.data)));
	};
	const notice = ({ kind, rows = [] }) => {
		if (kind === 'capture') captures.value = rows;
	};
	const stopped = ({ code }) => {
		if (code !== 'sign_in') return;
		close();
		me.value = null;
	};
	const seen = () => {
		if (document.hidden) return close();
		again();
		open();
	};
	document.addEventListener('visibilitychange', seen);
	const unwatch = effect(() => (me.value ? open() : close()));
	return () => {
		ended = true;
		close();
		unwatch();
		document.removeEventListener('visibilitychange', seen);
	};
}
