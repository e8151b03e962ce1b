// The keyboard: nothing needs a mouse. Switched off in fields.

import { has } from './api.js';
import { NAV } from './main.js';
import { link, place } from './router.js';

function move(step) {
	const rows = [...document.querySelectorAll('main [data-row]')];
	const at = rows.findIndex((row) => row === document.activeElement || row.closest('tr,li')?.contains(document.activeElement));
	(rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + step))])?.focus();
}

export function listen() {
	let wantsView = 0;
	addEventListener('keydown', (event) => {
		const target = event.target;
		const inField = target.closest('input,textarea,select,[contenteditable]');
		if (event.key === 'Escape' && inField) return target.blur();
		if (inField || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
		const now = performance.now();
		const view = now - wantsView < 1500 ? NAV.find(([, , , needs, key]) => key === event.key && has(needs))?.[1] : undefined;
		wantsView = 0;
		if (view) location.hash = link(view);
		else if (event.key === 'g') wantsView = now;
		else if (event.key === 'j') move(1);
		else if (event.key === 'k') move(-1);
		else if (event.key === '?') location.hash = link('help');
		else if (event.key === 'Escape' && place.held.rest.length) location.hash = link(place.held.view);
		else if (event.key === '/') {
			event.preventDefault();
			const search = document.querySelector('main input[type=search]');
			if (search) search.focus();
			else if (has('mcp')) location.hash = link('tools');
		}
	});
	// A click anywhere in a row opens it.
	addEventListener('click', (event) => {
		const target = event.target;
		if (event.defaultPrevented || target.closest('a,button,input,label,select') || String(getSelection())) return;
		(target.closest('tr')?.querySelector('a[data-row]'))?.click();
	});
}
