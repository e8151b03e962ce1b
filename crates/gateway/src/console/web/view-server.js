// One server: what it is, why it is down, and what can be done about it.

import { ask as send, at, get, has, live, post } from './api.js';
import { fill, h, plain } from './dom.js';
import { feed } from './feed.js';
import { tree } from './json.js';
import { parts } from './mcp.js';
import { link } from './router.js';
import { button, clock, confirm, done, facts, figure, table } from './table.js';
import { by, count, empty, failure, fuller, head, many, next, note, section, state, took } from './ui.js';

const LINES = 1000;
const ACTIONS = { restart: 'Restart', stop: 'Stop', start: 'Start', doctor: 'Run doctor' };
const ENDS = { ok: 'Nothing is wrong with it.', warning: 'It works, with warnings.' };

async function doctor(path, into) {
	const steps = h('ol.bare.stack', { role: 'status' });
	fill(into, h('h2', null, 'Doctor'), steps);
	into.hidden = false;
	await parts(await send('POST', `${path}/doctor`, {}), /\n/, (line) => {
		const { step, outcome, text, hint, ms } = JSON.parse(line);
		steps.append(step ? h('li.row', null, state(outcome, step), h('span.grow.any', null, plain(text, 2000), hint ? h('span.soft', null, ' ', hint) : null), h('span.num.soft', null, took(ms))) : h('li', null, h('b', null, ENDS[outcome] ?? 'It does not work as it is.')));
	});
}

// What the process wrote, live; `changed` hears when its state is another.
function stderr(view, name, changed) {
	const filter = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter lines', oninput: () => draw() });
	const box = h('div.log', { tabindex: 0, role: 'log', 'aria-label': 'Lines of stderr', 'aria-live': 'off' });
	let lines = [];
	const draw = () => {
		const sought = filter.value.toLowerCase();
		const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 40;
		const shown = sought ? lines.filter((line) => line.text.toLowerCase().includes(sought)) : lines;
		fill(box, shown.length ? shown.map((line) => h('div', null, h('time', { datetime: line.at }, new Date(line.at).toTimeString().slice(0, 8)), h('span.grow', null, plain(line.text, 4096)))) : h('div.soft', null, lines.length ? 'No line has that.' : 'It has written nothing to stderr.'));
		if (atEnd) box.scrollTop = box.scrollHeight;
	};
	const add = (more) => {
		const last = lines.at(-1)?.n ?? -1;
		lines = [...lines, ...more.lines.filter((line) => line.n > last)].slice(-LINES);
		draw();
	};
	const more = () => get(`${at`servers/${name}`}/stderr${lines.length ? `?after=${lines.at(-1)?.n}` : ''}`).then(add, (error) => lines.length || fill(box, failure(error)));
	void more();
	view.leave(feed(() => ({ views: 'stderr,servers', server: name, line: lines.at(-1)?.n }), more, { stderr: add, servers: ({ rows }) => rows.filter((row) => row.name === name).forEach(changed) }));
	return h('section.card.stack', { 'aria-label': 'stderr' }, h('div.head', null, h('h2', null, 'stderr'), filter), box, h('p.small.soft', null, 'The last 1,000 lines; secrets are out.'));
}

const entry = (of) => facts(Object.entries({ command: of.command, args: of.args, ...of }).filter(([, value]) => value && (typeof value !== 'object' || Object.keys(value).length)).map(([name, value]) => [name, h('span.mono.lines', null, Array.isArray(value) ? value.map((one) => (/[\s\x22\x27]/.test(one) ? JSON.stringify(one) : one)).join(' ') : typeof value === 'object' ? Object.entries(value).map(([key, one]) => `${key}=${typeof one === 'object' ? JSON.stringify(one) : one}`).join('\n') : value)]));

/** @param {View} view */
export default async function server(view, name) {
	const path = at`servers/${name}`;
	const { now, ask } = await live(path);
	const said = h('section.card.stack', { hidden: true });
	const actions = h('div.row.tight');
	const about = h('div.stack');
	const past = section('States');
	const top = h('div.stack');
	const act = (what) => button(ACTIONS[what] ?? what, async () => {
		if (what === 'doctor') return doctor(path, said).finally(ask);
		if (what === 'stop' && !(await confirm(`Stop ${name}?`, 'Stop it', h('p', null, 'Its calls fail until it is started again, or until the gateway starts anew.')))) return;
		await done(post(`${path}/${what}`), ask);
	}, what === 'stop' ? 'danger' : '');
	const list = table('Calls by tool', [
		{ label: 'Tool', by: (row) => row.tool, cell: (row) => h('a', { href: link('calls', { server: name, name: row.tool }) }, row.tool) },
		figure('Calls', 'calls'), figure('Failed', 'errors'), figure('Half', 'p50Ms', took), figure('95 %', 'p95Ms', took),
	], (row) => row.tool, () => empty('calls', 'No call yet', 'Try one of ', h('a', { href: link('tools', { server: name }) }, 'its tools'), '.'));
	view.watch(() => {
		const it = now.value;
		fill(actions, (it.actions ?? []).map(act), h('a.button', { href: link('tools', { server: name }) }, 'Its tools'));
		fill(top, h('div.row', null, state(it.state), it.since ? h('span.soft', null, 'since ', clock(it.since)) : null), it.error ? note(it.state === 'retrying' ? 'warn' : 'bad', h('b', null, fuller(it.error, it.hint)), h('div.small', null, has('doctor') && 'Doctor finds out more', next(it))) : null);
		fill(about, facts([
			it.info && ['Calls itself', [it.info.title ?? it.info.name, h('span.soft', null, ' ', it.info.version ?? '')]],
			['Protocol', `${it.revision ?? 'not known yet'}${it.era ? `, ${it.era}` : ''}, ${it.transport ?? '?'}`],
			['Offers', `${many(it.tools, 'tool')}, ${many(it.prompts, 'prompt')}, ${many(it.resources, 'resource')}`],
			['Calls', `${count(it.calls)}, ${count(it.errors)} failed, ${count(it.openCalls)} open, ${count(it.queued)} waiting`],
			typeof it.p50Ms === 'number' && ['Times', `half under ${took(it.p50Ms)}, 95 % under ${took(it.p95Ms)}`],
			typeof it.children === 'number' && ['Processes', `${count(it.children)}, ${many(it.restarts, 'restart')}`],
			it.paths?.mcp && ['Own endpoint', h('code', null, it.paths.mcp)],
			it.prefix && ['Prefix of names', h('code', null, it.prefix)],
		]), it.instructions ? h('details', null, h('summary', null, 'What the model reads about it'), h('p.lines', null, plain(it.instructions, 20_000))) : null, it.capabilities ? h('details', null, h('summary', null, 'Capabilities'), tree(it.capabilities, 'Capabilities')) : null, it.entry ? [h('h3', null, 'Entry in the configuration'), entry(it.entry)] : null);
		list.show(it.byTool ?? []);
		fill(past, h('h2', null, 'States'), h('ol.bare.stack', null, (it.history ?? []).slice(0, 64).map((one) => h('li.row', null, clock(one.at), state(one.state), h('span.soft.any', null, one.error ?? '')))));
		past.hidden = !it.history?.length;
	});
	const log = has('stderr') && now.held.transport === 'stdio' ? stderr(view, name, (row) => row.state !== now.held.state && ask()) : null;
	return h('div.view', null, head(name, h('a', { href: link('servers') }, 'All servers'), actions), top, said, h('div.split', null, h('div.stack', null, log, h('h2', null, 'Calls by tool'), list.node), h('div.stack', null, section('What it is', about), past)), by(`switchboard doctor ${name} --config FILE`, `switchboard tools ${name} --config FILE`));
}
