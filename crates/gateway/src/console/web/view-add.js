// Add a server: from a command, a URL, JSON of any client, or the files of clients on this machine.

import { at, get, has, me, post } from './api.js';
import { fill, h } from './dom.js';
import { link } from './router.js';
import { button, confirm, field, say, sending } from './table.js';
import { by, empty, failure, head, section } from './ui.js';
import { apply } from './view-config.js';

/** Words of a command line, with quotes as a shell has them. */
export const split = (text) => (text.match(/(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s"'])+/g) ?? []).map((word) => word.replace(/"((?:[^"\\]|\\.)*)"|'([^']*)'|\\(.)/g, (_, double, single, bare) => double?.replace(/\\(.)/g, '$1') ?? single ?? bare));

/** Servers in a pasted text, under whatever name a client keeps them. */
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

/** The file with the entries put after the opening of its servers; comments stay. */
export function insert(text, entries) {
	const lines = Object.entries(entries).map(([name, entry]) => `    ${JSON.stringify(name)}: ${JSON.stringify(entry)},\n`).join('');
	const place = /"(mcpServers|servers)"\s*:\s*\{[ \t]*\n?/.exec(text ?? '');
	const after = place ? place.index + place[0].length : 0;
	if (place) return `${text.slice(0, after)}${place[0].endsWith('\n') ? '' : '\n'}${lines}${text.slice(after)}`;
	const start = text?.indexOf('{') ?? -1;
	if (start < 0) throw new Error('the file is not JSON; add the server in Configuration');
	return `${text.slice(0, start + 1)}\n  "mcpServers": {\n${lines}  },${text.slice(start + 1)}`;
}

export default async function add() {
	const keep = async (entries) => {
		const file = await get('config');
		const applied = await apply(file, insert(file.text, entries));
		if (applied) await arrive(applied.did, Object.keys(entries)[0]);
	};
	const arrive = async (did, first) => {
		say('good', did);
		// The gateway follows its file in a moment.
		for (let tries = 0; tries < 40 && !(await get('servers')).rows.some(({ name }) => name === first); tries += 1) await new Promise((later) => setTimeout(later, 250));
		location.hash = link('servers', first);
	};
	const ran = ({ entry }) => h('div.mono.small.soft.any', null, entry?.url ?? [entry?.command, ...(entry?.args ?? [])].join(' '));
	// By name: the gateway has the values, and the page never sees them.
	const take = async (row) => {
		if (await confirm(`Add ${row.name}?`, 'Add', h('p', null, 'It is written to the configuration as ', row.source, ' has it, and this is run or asked:'), ran(row))) await arrive((await post(at`found/${row.name}`)).did, row.name);
	};
	const name = h('input', { required: true, placeholder: 'files', autocomplete: 'off' });
	const line = h('input.mono', { required: true, placeholder: 'npx -y @modelcontextprotocol/server-filesystem /data', autocomplete: 'off' });
	const json = h('textarea.mono', { required: true, rows: 8, placeholder: '{ "mcpServers": { "files": { "command": "npx", "args": ["…"] } } }' });
	const rows = h('ul.bare.stack');
	if (has('found')) {
		void get('found').then((answer) => fill(rows, answer.rows.length ? answer.rows.slice(0, 200).map((row) => h('li.row', null, h('div.grow', null, h('b.any', null, row.name), h('span.soft', null, ' in ', row.source), ran(row)), has('found-add') ? button('Add …', () => take(row), '', { 'aria-label': `Add ${row.name} …` }) : null)) : h('li.soft', null, 'No other client on this machine has servers.')), (error) => fill(rows, failure(error)));
	}
	if (!me.held?.canWrite) return h('div.view', null, head('Add a server'), empty('add', 'This console is read only', 'Write the server into the configuration file; the gateway reads it at once.'));
	const look = 'Look at the change';
	return h('div.view', null, head('Add a server', ['Nothing runs before you have seen the exact command and said yes. The whole file is in ', h('a', { href: link('config') }, 'Configuration'), '.']), h('div.cols',
		null, section('A command or a URL', sending(look, async () => {
			const [command, ...args] = split(line.value);
			await keep({ [name.value.trim()]: /^https?:\/\//.test(command) ? { url: command } : { command, args } });
		}, field('Name', name), field('Command or URL', line, 'Write secrets as variables: ${GITHUB_TOKEN}.'))),
		section('From the documentation of a server', sending(look, async () => keep(pasted(json.value)), field('JSON for any client', json))),
		has('found') ? section('From other clients on this machine', rows, has('found-add') ? null : h('p.small', null, 'To add them, run ', h('code', null, 'switchboard import'), ' on this machine.')) : null), by('switchboard import --write FILE'));
}
