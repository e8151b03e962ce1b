// Help: the keys.

import { has } from './api.js';
import { h } from './dom.js';
import { NAV } from './main.js';
import { head, section } from './ui.js';

export default function help() {
	const row = (keys, words) => [h('dt', null, keys.split(' ').map((key) => [h('kbd', null, key), ' '])), h('dd', null, words)];
	return h('div.view', null, head('Help and keys', 'Nothing here needs a mouse. In fields, keys only write.'), h('div.cols',
		null, section('Everywhere', h('dl.kv', null, row('/', 'search'), row('j k', 'next and previous row'), row('Enter', 'open it'), row('Esc', 'leave a field; back to the list'), row('?', 'this page'))),
		section('Trying a tool', h('dl.kv', null, row('Ctrl Enter', 'call it'), row('Alt J', 'to the JSON, and back'))),
		section('Views', h('dl.kv', null, NAV.map(([, , title, needs, key]) => has(needs) && row(`g ${key}`, title))))));
}
