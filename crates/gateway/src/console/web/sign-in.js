// The door: a key, the link that `serve` printed, or an issuer.

import { get, post } from './api.js';
import { fill, h } from './dom.js';
import { button, field, modal, sending } from './table.js';
import { failure } from './ui.js';

function fields(enter, done) {
	const key = h('input', { type: 'password', name: 'key', required: true, autocomplete: 'current-password' });
	return sending('Sign in', async () => {
		const text = key.value.trim();
		// A pasted link is as good as a key.
		const link = /#link=(\S+)$/.exec(text)?.[1];
		key.select();
		enter(await post('sign-in', link ? { link } : { key: text }));
		done();
	}, h('input', { name: 'username', autocomplete: 'username', value: 'switchboard', hidden: true }), field('Key, or the link that the gateway printed', key, 'A key of the configuration, as clients send it.'));
}

// A button for each issuer.
const issuers = (go) => {
	const into = h('div.stack');
	get('sign-in').then((answer) => fill(into, answer.issuers.map(({ name, host }) => button(`Sign in with ${host}`, async () => {
		const { url } = await post('sign-in', { issuer: name });
		if (/^https?:/.test(url)) go(url, into);
	}))), () => {});
	return into;
};

/** The page before anything else. */
export function door(enter, error) {
	fill(document.body, h('main.door', null, h('div.card', null, h('div.stack.tight', null, h('h1', null, 'Switchboard'), h('p.soft', null, 'Sign in to see the servers, tools and calls of this gateway.')), error ? failure(error) : null, fields(enter, () => {}), issuers((url) => location.assign(url)), h('p.small.soft', null, h('code', null, 'switchboard serve'), ' prints a link that signs you in once. No key yet? ', h('code', null, 'switchboard key new'), ' makes one.'))));
	document.title = 'Sign in · Switchboard';
	document.querySelector('[type=password]').focus();
	performance.mark('ready');
}

let asking;
/** Over an open page, so that nothing is lost. */
export const dialog = (why, enter) => (asking ??= modal('Sign in again', (done) => [h('p.soft', null, why), fields(enter, done), issuers((url, into) => {
	open(url, '_blank');
	fill(into, button('I have signed in there', async () => {
		enter(await get('me'));
		done();
	}));
})]).finally(() => (asking = null)));
