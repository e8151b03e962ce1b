// The configuration: problems while typing, what a change means, apply, and go back.

import { get, has, me, post } from './api.js';
import { fill, h } from './dom.js';
import { feed } from './feed.js';
import { block, button, clock, complain, confirm, done, say } from './table.js';
import { by, count, failure, fuller, head, many, note, section, state, took } from './ui.js';

function trial(text, server) {
	const told = h('div', { role: 'status' });
	return h('div.stack.tight', null, h('div', null, button('Try it first', async () => {
		fill(told, h('p.soft', null, 'It starts, says what it has, and ends.'));
		const it = await post('config/trial', { text, server }).catch((error) => ({ outcome: 'failed', error: `${error.message} ${error.hint ?? ''}` }));
		const isGood = it.outcome === 'ok';
		fill(told, note(isGood ? 'good' : 'bad', h('b', null, isGood ? `It works: ${many(it.count, 'tool')}, ${many(it.prompts, 'prompt')}, ${many(it.resources, 'resource')}, in ${took(it.ms)}` : fuller(it.error, it.hint)), isGood ? h('p.any', null, it.tools.map(({ name }) => name).join(', ')) : it.needsSignIn ? h('p', null, 'Keep it, then connect an account.') : null, it.stderr?.length ? block(it.stderr.join('\n'), 'stderr') : null));
	})), told);
}

export function meaning(changes, text) {
	if (!changes.length) return h('p.soft', null, 'No change of a server is known; the changed lines say the rest.');
	return h('ul.bare.stack', null, changes.slice(0, 100).map((change) => h('li.stack.tight', null, h('div.row.tight', null, h('span', { class: change.kind === 'removed' ? 'chip bad' : change.kind === 'added' ? 'chip' : 'chip warn' }, change.kind), h('span.any', null, change.text)), change.command ? block(change.command.join(' '), 'Command') : null, has('trial') && change.server && ['added', 'changed'].includes(change.kind) ? trial(text, change.server) : null)));
}

export function diff(before, after) {
	const [a, b] = [before?.split('\n') ?? [], after?.split('\n') ?? []];
	let top = 0;
	while (top < Math.min(a.length, b.length) && a[top] === b[top]) top += 1;
	let end = 0;
	while (end < Math.min(a.length, b.length) - top && a.at(-1 - end) === b.at(-1 - end)) end += 1;
	const lines = (tag, lines) => lines.slice(0, 400).map((line) => h(tag, null, `${tag === 'ins' ? '+' : tag === 'del' ? '−' : ' '} ${line}`));
	return h('div.diff.mono', { role: 'group', 'aria-label': 'Changed lines' }, lines('span', a.slice(Math.max(0, top - 2), top)), lines('del', a.slice(top, a.length - end)), lines('ins', b.slice(top, b.length - end)), lines('span', a.slice(a.length - end, a.length - end + 2)));
}

export async function apply(file, text) {
	const { problems, changes } = await post('config/check', { text });
	if (problems.some((one) => one.level === 'error')) throw new Error('the text has errors; mend them first');
	if (!(await confirm('Apply this configuration?', 'Apply', meaning(changes, text), diff(file.text, text)))) return null;
	return post('config/apply', { text }, { 'If-Match': `"${file.digest}"` });
}

/** @param {View} view */
export default async function config(view) {
	let file = await get('config');
	const text = h('textarea.mono', { rows: 24, id: 'text', value: file.text ?? 'The file is not JSON, so it is not shown here.', readOnly: !file.isWritable || !me.held?.canWrite || file.text === null, oninput: () => {
		clearTimeout(timer);
		timer = setTimeout(check, 300);
	} });
	let timer = 0;
	view.leave(() => clearTimeout(timer));
	const found = h('div.stack', { role: 'status' });
	const changed = h('div.stack');
	const past = h('ol.bare.stack');
	const conflict = h('div');
	const list = (problems) => fill(found, problems.length ? h('ul.bare.stack', null, problems.slice(0, 50).map((one) => h('li', null, state(one.level === 'error' ? 'error' : 'warning', one.level), ' ', h('button.quiet', { onclick: () => jump(one.line, one.column) }, `line ${one.line}`), ' ', h('span.any', null, one.text, one.hint ? h('span.soft', null, ' ', one.hint) : null)))) : state('ok', 'No problems'));
	const jump = (line, column) => {
		const at = text.value.split('\n').slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + (column ?? 1) - 1;
		text.focus();
		text.setSelectionRange(at, at);
		text.scrollTop = (line - 5) * 20;
	};
	const fresh = () => {
		list(file.problems ?? []);
		fill(changed, h('p.soft', null, 'The text is as the file has it.'));
	};
	const check = async () => {
		try {
			const { problems, changes } = await post('config/check', { text: text.value });
			list(problems);
			fill(changed, meaning(changes, text.value));
		} catch (error) {
			fill(found, failure(error));
		}
	};
	const again = async () => {
		file = await get('config');
		text.value = file.text;
		fill(conflict);
		fresh();
		await versions();
	};
	/** Somebody else changed the file: nobody's text is overwritten. */
	const clash = () => fill(conflict, note('warn', 'The file has changed meanwhile. Your text is still here, and has not been written. ', button('Take the file as it is now', again), ' ', button('Keep my text', async () => {
		file = { ...(await get('config')) };
		fill(conflict);
		await check();
	})));
	const save = button('Apply …', async () => {
		try {
			const done = await apply(file, text.value);
			if (!done) return;
			say('good', done.did);
			await again();
		} catch (error) {
			if (error.status !== 412) throw error;
			clash();
		}
	}, 'main');
	const versions = async () => {
		if (!has('versions')) return;
		const { rows } = await get('config/versions');
		fill(past, rows.length ? rows.map((row) => h('li.row', null, clock(row.at), h('span.grow.soft', null, `${row.by ?? 'the file'}, ${count(row.bytes)} bytes`), button('Look', async () => {
			const { text: old } = await get(`config/versions/${row.n}`);
			if (await confirm('Go back to this version?', 'Go back', diff(file.text, old))) {
				await done(post(`config/versions/${row.n}/restore`, {}, { 'If-Match': `"${file.digest}"` }));
				await again();
			}
		}, 'quiet'))) : h('li.soft', null, 'No earlier version yet.'));
	};
	fresh();
	void versions().catch(complain);
	view.leave(feed(() => ({ views: 'config' }), () => {}, { config: async () => {
		const { digest } = await get('config');
		if (digest === file.digest) return;
		if (text.value === file.text) await again();
		else clash();
	} }));
	return h('div.view', null, head('Configuration', [h('code.any', null, file.file), '. Secrets are masked; a mask that stays keeps its value.'], text.readOnly ? h('span.chip', null, 'read only') : save), conflict,
		h('div.split', null, h('section.card', null, h('label.vh', { htmlFor: 'text' }, 'Text of the file'), text), h('div.stack', null, section('Problems', found), section('What would change', changed), has('versions') ? section('Earlier versions', past) : null)),
		by('switchboard config check FILE', 'switchboard serve --check --config FILE'));
}
