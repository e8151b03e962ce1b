// Add a server: a command, a URL, JSON of any client, or of clients on this machine.

import { get, has, me } from './api.js';
import { fill, h } from './dom.js';
import { link } from './router.js';
import { button, field, say, sending } from './table.js';
import { by, empty, failure, head, section } from './ui.js';
import { apply } from './view-config.js';

export const split = (text) => (text.match(/(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s"'])+/g) ?? []).map((word) => word.replace(/"((?:[^"\\]|\\.)*)"|'([^']*)'|\\(.)/g, (_, double, single, bare) => double?.replace(/\\(.)/g, '$1') ?? single ?? bare));

export function pasted(text) {
	// Lines of comment and last commas are common in documentation.
	const bare = text.replace(/^\s*\/\/.*$/gm, '').replace(/,(\s*[}\]])/g, '$1').trim().replace(/,$/, '');
	const whole = JSON.parse(bare.startsWith('{') ? bare : `{${bare}}`);
	const inside = whole.mcpServers ?? whole.servers ?? whole.mcp?.servers ?? whole.mcp ?? whole.mcp_servers ?? whole.context_servers ?? whole;
	const isServer = (entry) => ['command', 'url', 'serverUrl', 'httpUrl'].some((name) => entry?.[name]);
	const found = Object.entries(isServer(inside) ? { [inside.name ?? 'server']: inside } : inside).filter(([, entry]) => isServer(entry));
	if (!found.length) throw new Error('no server is in that text; it needs a command or a url');
	return Object.fromEntries(found);
}

export function insert(text, entries) {
	const lines = Object.entries(entries).map(([name, entry]) => `    ${JSON.stringify(name)}: ${JSON.stringify(entry)},\n`).join('');
	const place = /"(mcpServers|servers)"\s*:\s*\{[ \t]*\n?/.exec(text ?? '');
	const after = place ? place.index + place[0].length : 0;
	if (place) return `${text.slice(0, after)}${place[0].endsWith('\n') ? '' : '\n'}${lines}${text.slice(after)}`;
	const start = text?.indexOf('{') ?? -1;
	if (start < 0) throw new Error('the file is not JSON; add the server in Configuration');
	return `${text.slice(0, start + 1)}\n  "mcpServers": {\n${lines}  },${text.slice(start + 1)}`;
}

const lines = (text) => text.split('\n').filter((line) => line.trim()).map((line) => {
	const [, name, value] = /^\s*([\w-]+)\s*:\s*(.+?)\s*$/.exec(line) ?? [];
	if (!name) throw new Error(`${line.trim()} is no header; write Name: value`);
	return [name, value];
});

export default async function add() {
	const keep = async (entries) => {
		const file = await get('config');
		const applied = await apply(file, insert(file.text, entries));
		if (!applied) return;
		say('good', applied.did);
		const [first] = Object.keys(entries);
		// The gateway follows its file in a moment.
		for (let tries = 0; tries < 40 && !(await get('servers')).rows.some(({ name }) => name === first); tries += 1) await new Promise((later) => setTimeout(later, 250));
		location.hash = link('servers', first);
	};
	const ran = ({ entry }) => h('div.mono.small.soft.any', null, entry?.url ?? [entry?.command, ...(entry?.args ?? [])].join(' '));
	const name = h('input', { required: true, placeholder: 'files', autocomplete: 'off' });
	const line = h('input.mono', { required: true, placeholder: 'npx -y @modelcontextprotocol/server-filesystem /data', autocomplete: 'off' });
	const headers = h('textarea.mono', { rows: 2, placeholder: 'Authorization: Bearer ${TOKEN}' });
	const json = h('textarea.mono', { required: true, rows: 8, placeholder: '{ "mcpServers": { "files": { "command": "npx", "args": ["…"] } } }' });
	const rows = h('ul.bare.stack');
	if (has('found')) {
		void get('found').then((answer) => fill(rows, answer.rows.length ? answer.rows.slice(0, 200).map((row) => h('li.row', null, h('div.grow', null, h('b.any', null, row.name), h('span.soft', null, ' in ', row.source), ran(row)), button('Add …', () => keep({ [row.name]: row.entry }), '', { 'aria-label': `Add ${row.name} …` }))) : h('li.soft', null, 'No other client on this machine has servers.')), (error) => fill(rows, failure(error)));
	}
	if (!me.held?.canWrite) return h('div.view', null, head('Add a server'), empty('add', 'This console is read only', 'Write the server into the configuration file; the gateway reads it at once.'));
	const look = 'Look at the change';
	return h('div.view', null, head('Add a server', ['Nothing runs before you have seen the exact command and said yes. The whole file is in ', h('a', { href: link('config') }, 'Configuration'), '.']), h('div.cols',
		null, section('A command or a URL', sending(look, async () => {
			const [command, ...args] = split(line.value);
			await keep({ [name.value.trim()]: /^https?:\/\//.test(command) ? { url: command, headers: Object.fromEntries(lines(headers.value)) } : { command, args } });
		}, field('Name', name), field('Command or URL', line, 'Write secrets as variables: ${GITHUB_TOKEN}.'), field('Headers, for a URL', headers, 'One on a line.'))),
		section('From the documentation of a server', sending(look, async () => keep(pasted(json.value)), field('JSON for any client', json))),
		has('found') ? section('From other clients on this machine', rows) : null), by('switchboard import --write FILE'));
}
