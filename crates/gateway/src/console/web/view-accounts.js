// The user's own sign-ins at servers: quiet if well, loud if not.

import { at, get, post } from './api.js';
import { fill, h } from './dom.js';
import { button, done, table, text } from './table.js';
import { by, empty, head, note, state } from './ui.js';

export default async function accounts() {
	const told = h('div');
	const list = table('Accounts', [
		text('Server', 'server'),
		{ label: 'State', by: (row) => row.state, cell: (row) => state(row.state, row.state === 'needed' ? 'not connected' : row.state) },
		{ label: 'Scopes', cell: (row) => h('span.any', null, (row.scopes ?? []).join(' ') || '–'), blank: (row) => !row.scopes?.length },
		{ label: '', cell: (row) => h('div.row.tight', null, button(row.state === 'connected' ? 'Reconnect' : 'Connect', async () => {
			const { url } = await post(at`accounts/${row.server}/connect`);
			if (/^https?:\/\//.test(url)) open(url, '_blank', 'noreferrer,noopener');
			fill(told, note('', 'The page to sign in has opened in a new tab. ', button('Look again', draw, 'quiet')));
		}, row.state === 'connected' ? '' : 'main'), row.state === 'connected' ? button('Disconnect', async () => {
			await done(post(at`accounts/${row.server}/disconnect`), draw);
		}, 'danger') : null) },
	], (row) => row.server, () => empty('accounts', 'No server asks for an account', 'Servers that tell users apart appear here, with your own sign-in at each.'));
	const draw = async () => list.show((await get('accounts')).rows);
	await draw();
	return h('div.view', null, head('Accounts', 'Your own sign-ins at servers. Nobody else uses them.'), told, list.node, by('switchboard login URL', 'switchboard logout URL'));
}
