// What changed since it was approved, names like another server's, hidden characters.

import { get, me, post } from './api.js';
import { fill, h } from './dom.js';
import { link } from './router.js';
import { button, done } from './table.js';
import { by, empty, head, many, state } from './ui.js';
import { diff } from './view-config.js';

const WORDS = { lookalike: 'named like another', hidden: 'hidden characters' };

export default async function safety() {
	const list = h('div.stack');
	const lead = h('span');
	const row = (it) => h('section.card.stack', { 'aria-label': `${it.kind} ${it.name} of ${it.server}: ${it.what}` },
		h('div.head', null, h('div.stack.tight.grow', null, h('h2.any', null, it.name ? [h('a', { href: link('tools', { server: it.server, name: it.name, kind: it.kind === 'prompt' ? 'prompts' : '' }) }, it.name), h('span.soft', null, ` ${it.kind} of ${it.server}`)] : it.server), h('div.row.tight', null, state('warning', WORDS[it.what] ?? it.what), h('span.soft.any', null, it.text))),
			it.digest && me.held?.canWrite ? button('Approve', () => done(post('safety/approve', { server: it.server, kind: it.kind, name: it.name, digest: it.digest }), draw), 'main', { 'aria-label': `Approve ${it.name}` }) : null),
		it.changes?.map((one) => h('div.stack.tight', null, h('h3.any', null, one.path), diff(one.before, one.after))));
	const draw = async () => {
		const { rows, count, isRefusing } = await get('safety');
		fill(lead, count ? `${many(count, 'definition')} changed since approval. ${isRefusing ? 'Clients do not get them until somebody says yes.' : 'Clients get them: see toolChanges in the configuration.'}` : 'What servers say of tools is compared with what was approved.');
		fill(list, rows.length ? rows.map(row) : empty('safety', 'Nothing to worry about', 'Changed definitions, names like another server’s and hidden characters appear here.'));
	};
	await draw();
	return h('div.view', null, head('Safety of tools', lead), list, by('switchboard approve --config FILE'));
}
