// Keys and grants.

import { at, get, has, me, post, remove } from './api.js';
import { fill, h, plain } from './dom.js';
import { button, clock, code, confirm, done, field, sending, table, text } from './table.js';
import { by, empty, head, many, note, section } from './ui.js';

// What a grant allows, in words; null means that nothing is said.
const allowed = ({ servers, groups, tools }) => [servers || groups ? [...(servers ?? []), ...(groups ?? [])].join(', ') || 'no server' : 'all servers', tools && `only ${tools.join(', ')}`].filter(Boolean).join('; ');

export default async function keys() {
	const told = h('div');
	const name = h('input', { required: true, placeholder: 'bob', autocomplete: 'off' });
	const picks = h('div.row', { role: 'group', 'aria-label': 'Servers' });
	const list = table('Keys', [
		text('Name', 'name'),
		{ label: 'May use', cell: (row) => h('span.any', null, row.isWhole ? 'everything' : allowed(row.grants ?? {}), row.keys > 1 ? ` · ${row.keys} keys` : null) },
		{ label: 'Last used', cell: (row) => (row.lastUsedAt ? clock(row.lastUsedAt) : 'not since the start') },
		{ label: '', cell: (row) => h('div.row.tight', null, has('as') ? button('What it sees', () => seen(row.name), '', { 'aria-label': `What ${row.name} sees` }) : null, me.held?.canWrite ? [button('One more key', () => make(row.name, {}), '', { 'aria-label': `One more key for ${row.name}`, title: 'To replace one: the old key counts on until it is taken out of the file' }), button('Revoke', async () => {
			if (!(await confirm(`Revoke the key ${row.name}?`, 'Revoke it', h('p', null, 'Its sessions end, and its clients get HTTP 401.')))) return;
			await done(remove(at`keys/${row.name}`), draw);
		}, 'danger', { 'aria-label': `Revoke ${row.name}` })] : null) },
	], (row) => row.name, () => empty('keys', 'No key yet', 'Without keys, whoever reaches the gateway may use it. As soon as there is one, every client needs one.'));
	const make = async (who, grant) => {
		const made = await post(at`keys/${who}`, grant);
		fill(told, note('good', h('b', null, made.did), h('p', null, 'Copy it now: it is not shown again.'), code(made.key, 'The key')));
		await draw();
	};
	const seen = async (who) => {
		const { rows } = await get(at`as/${who}/servers`);
		fill(told, note('', h('b', null, who), ' sees: ', plain(rows.map((row) => `${row.name} (${many(row.tools, 'tool')})`).join(', ') || 'no server', 2000)));
	};
	const draw = async () => list.show((await get('keys')).rows);
	await draw();
	void get('servers').then(({ rows }) => fill(picks, rows.map((row) => h('label.pick', null, h('input', { type: 'checkbox', value: row.name }), row.name))), () => {});
	return h('div.view', null, head('Keys', 'Who may use what. A key is shown once, when it is made; the file has its hash.'), told, list.node,
		me.held?.canWrite ? section('Make a key', sending('Make the key', async () => {
			const servers = [...picks.querySelectorAll('input')].filter((box) => box.checked).map((box) => box.value);
			await make(name.value.trim(), servers.length ? { servers } : {});
			name.value = '';
		}, field('Name', name), h('div.field', null, h('span.label', null, 'Servers'), picks, h('div.help', null, 'None chosen means all of them.')))) : null, by('switchboard key new'));
}
