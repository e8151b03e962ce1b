// What servers send, as text; pictures and sounds after a click.

import { h, plain, texted } from './dom.js';
import { form } from './form.js';
import { tree } from './json.js';
import { list } from './schema.js';
import { button, say } from './table.js';
import { note } from './ui.js';

/** Types that a browser draws without running anything; SVG is not among them. */
const SHOWN = /^(image\/(png|jpeg|gif|webp|avif|bmp)|audio\/(wav|x-wav|wave|mpeg|mp3|ogg|webm|mp4|aac|flac))$/;
const MOST_BYTES = 4 << 20;

export function address(uri) {
	const text = texted(uri);
	return /^https?:\/\/[^\s]+$/i.test(text) && text.length < 4000 ? h('a.any', { href: text, target: '_blank', rel: 'noreferrer noopener' }, text) : h('code.any', null, text);
}

// Bytes in Base64: shown or saved after a click.
function bytes(data, type) {
	const box = h('div.stack');
	const size = Math.floor((texted(data).length * 3) / 4);
	const known = SHOWN.exec(type);
	const kind = type.startsWith('image/') ? 'picture' : type.startsWith('audio/') ? 'sound' : 'file';
	const about = `${type || 'unknown type'}, ${size < 1024 ? `${size} bytes` : `${Math.round(size / 1024).toLocaleString('en')} KiB`}`;
	const url = (as) => URL.createObjectURL(new Blob([Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))], { type: as }));
	const show = button(`Show the ${kind}`, () => {
		const at = url(type);
		const node = kind === 'picture' ? h('img.shown', { alt: `Picture of the result, ${about}`, src: at }) : h('audio', { controls: true, src: at });
		node.addEventListener('error', () => say('bad', `This is no ${kind} that the browser knows.`));
		show.replaceWith(node);
	});
	const save = button('Save', () => h('a', { href: url('application/octet-stream'), download: `result.${/\/([a-z0-9]+)$/.exec(type)?.[1] ?? 'bin'}` }).click(), 'quiet');
	box.append(h('div.row', null, known && size <= MOST_BYTES ? show : null, save, h('span.soft.small', null, about, known ? (size > MOST_BYTES ? '; too large to show' : '') : kind === 'file' ? '' : '; not shown, because of its type')));
	return box;
}

// A text; JSON also as a tree.
function said(text) {
	const all = texted(text);
	const most = 20_000;
	const box = h('pre.code', { tabindex: 0 }, plain(all, most));
	return h('div.stack.tight', null, box, all.length > most ? button('Show more', () => box.replaceChildren(...plain(all, 1_000_000)), 'quiet') : null);
}

export function content(item) {
	switch (item?.type) {
		case 'text': return said(item.text);
		case 'image': case 'audio': return bytes(item.data, texted(item.mimeType));
		case 'resource': return h('div.stack.tight', null, h('div.small', null, 'Resource ', address(item.resource?.uri)), item.resource?.blob === undefined ? said(item.resource?.text) : bytes(item.resource.blob, texted(item.resource.mimeType)));
		case 'resource_link': return h('div', null, 'Link to ', h('b', null, item.title ?? item.name ?? ''), ' ', address(item.uri), h('div.soft', null, item.description ?? ''));
		default: return tree(item, 'Content of a kind that the console does not know');
	}
}

export function outcome(result) {
	const parts = [];
	if (result.isError) parts.push(note('bad', 'The tool says that it failed.'));
	const items = list(result.content);
	parts.push(...items.slice(0, 200).map(content));
	if (items.length > 200) parts.push(note('', `${(items.length - 200).toLocaleString('en')} more items; the raw result has them.`));
	for (const message of list(result.messages).slice(0, 200)) parts.push(h('div.stack.tight', null, h('h3', null, message?.role), content(message?.content)));
	for (const one of list(result.contents).slice(0, 200)) parts.push(content({ type: 'resource', resource: one }));
	if (result.structuredContent !== undefined) parts.push(h('div', null, h('h3', null, 'Structure'), tree(result.structuredContent, 'Structured result')));
	if (!parts.length) parts.push(note('', 'The result is empty.'));
	parts.push(h('details.small', null, h('summary', null, 'Raw result'), tree(result, 'Raw result')));
	return parts;
}

export function question(into, method, params, signal) {
	return new Promise((resolve, reject) => {
		const end = (settle) => () => {
			box.remove();
			settle();
		};
		const act = (label, answer, kind = '') => h('button', { class: kind, onclick: end(() => resolve(answer())) }, label);
		const refuse = h('button', { onclick: end(() => reject(new Error('you refused to answer, so the call ended here'))) }, 'Refuse');
		const decline = act('Decline', () => ({ action: 'decline' }));
		const lines = h('textarea', { rows: 4, 'aria-label': 'Your answer' });
		const ask = () => {
			if (method === 'elicitation/create' && params.mode === 'url') return ['The server asks you to visit a page', h('p.lines', null, params.message), h('p', null, address(params.url)), note('warn', 'It opens in a new tab. Look at its host first: the console does not vouch for it.'), h('div.row', null, act('I agree', () => ({ action: 'accept' }), 'main'), decline)];
			if (method === 'elicitation/create') {
				const asked = form(params.requestedSchema ?? { type: 'object' });
				return ['The server asks', h('p.lines', null, params.message), asked.node, h('div.row', null, h('button.main', { onclick: () => asked.check() && end(() => resolve({ action: 'accept', content: asked.get() }))() }, 'Answer'), decline, act('Dismiss', () => ({ action: 'cancel' }), 'quiet'))];
			}
			if (method === 'sampling/createMessage') return ['The server asks a model; here you are the model', ...list(params.messages).slice(0, 50).map((one) => h('div', null, h('h3', null, one?.role), content([one?.content].flat()[0]))), lines, h('div.row', null, act('Answer', () => ({ role: 'assistant', model: 'a person at the console', stopReason: 'endTurn', content: { type: 'text', text: lines.value } }), 'main'), refuse)];
			if (method === 'roots/list') return ['The server asks which folders it may work in', h('p.soft', null, 'One URI a line, such as file:///home/you/project; none is an answer too.'), lines, h('div.row', null, act('Answer', () => ({ roots: lines.value.split('\n').map((line) => line.trim()).filter(Boolean).map((uri) => ({ uri })) }), 'main'), refuse)];
			return [`The server asks ${method}, which the console does not know`, h('div', null, refuse)];
		};
		const [title, ...inside] = ask();
		const box = h('section.card.stack', { 'aria-label': 'Question of the server', tabindex: -1 }, h('h3', null, title), inside);
		signal.addEventListener('abort', end(() => reject(signal.reason)));
		into.append(box);
		(box.querySelector('input,textarea,select') ?? box).focus();
	});
}
