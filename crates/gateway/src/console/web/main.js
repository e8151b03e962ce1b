// The frame of the page: sign-in, navigation, and the view that the address names.

import { again, captures, digest, get, has, kept, me, online, post } from './api.js';
import { fill, h, whenIdle } from './dom.js';
import { link, place } from './router.js';
import { effect } from './signal.js';
import { failure, icon } from './ui.js';

/** Group, view, title, the feature that it needs, and its key after `g`. */
export const NAV = [
	['Watch', 'home', 'Home', 'overview', 'h'], ['', 'servers', 'Servers', 'servers', 's'], ['', 'tools', 'Tools', 'mcp', 't'], ['', 'calls', 'Calls', 'calls', 'c'], ['', 'sessions', 'Sessions', 'sessions', 'e'], ['', 'charts', 'Charts', 'overview', 'r'], ['', 'safety', 'Safety', 'safety', 'y'],
	['Use', 'connect', 'Connect a client', 'snippets', 'n'], ['', 'accounts', 'Accounts', 'accounts', 'a'],
	['Change', 'config', 'Configuration', 'config', 'f'], ['', 'add', 'Add a server', 'config', 'd'], ['', 'keys', 'Keys', 'keys', 'k'],
];
const load = (view) => import(`./view-${view}.js`);
/** Whether to ask who is signed in: without a cookie that is an error in the browser's log. */
const SIGNED_IN = 'switchboard-signed-in';
const THEME = 'switchboard-theme';
/** The other style sheet: after the first view, or before another. */
const styles = () => (sheet ??= new Promise((loaded) => document.head.append(h('link', { rel: 'stylesheet', href: new URL('views.css', import.meta.url).href, onload: loaded, onerror: loaded }))));
let sheet;

const main = h('main', { id: 'main', tabindex: -1 });
let frame = null;

function theme(next) {
	if (next !== undefined) next ? localStorage.setItem(THEME, next) : localStorage.removeItem(THEME);
	const chosen = localStorage.getItem(THEME) ?? '';
	document.documentElement.dataset.theme = chosen;
	return chosen;
}

function nav() {
	const parts = [];
	for (const [group, view, title, needs] of NAV) {
		if (group) parts.push(h('h2', null, group), h('ul.bare'));
		if (has(needs)) parts.at(-1)?.append(h('li', null, h('a', { href: link(view), 'data-view': view }, icon(view), title)));
	}
	return parts.filter((part, index) => part.childElementCount || parts[index + 1]?.childElementCount);
}

function draw() {
	const side = h('aside.side', { id: 'side', popover: 'auto', 'aria-label': 'Navigation' });
	const list = h('nav.main', { 'aria-label': 'Views' });
	const who = h('div.who');
	const banner = h('div.banner', { role: 'status', hidden: true });
	const brand = () => h('a.brand', { href: link('home') }, h('img', { src: document.querySelector('link[rel=icon]')?.getAttribute('href'), alt: '' }), 'Switchboard');
	const looks = h('select', { 'aria-label': 'Colours', onchange: () => theme(looks.value) }, [['', 'As the system'], ['light', 'Light'], ['dark', 'Dark']].map(([value, words]) => h('option', { value, selected: value === theme() }, words)));
	fill(side, brand(), list, who);
	const skip = h('a.skip', { href: '#main', onclick: (event) => {
		event.preventDefault();
		main.focus();
	} }, 'Skip to the content');
	frame = h('div.frame', null, skip, h('header.top', null, brand(), h('button.quiet', { popovertarget: 'side' }, icon('menu'), 'Menu')), side, banner, main);
	fill(document.body, frame);
	effect(() => void fill(list, nav()));
	effect(() => {
		side.hidePopover();
		for (const one of list.querySelectorAll('a')) one.dataset.view === place.value.view && me.value ? one.setAttribute('aria-current', 'page') : one.removeAttribute('aria-current');
	});
	effect(() => {
		const user = me.value;
		if (!user) return;
		fill(who, h('div.any', null, h('b', null, user.principal), user.isWhole ? null : ' · own view', user.canWrite ? null : ' · read only'), looks, h('div.row.tight', null, h('a', { href: link('help') }, 'Help and keys'), h('button.quiet', { onclick: leave }, 'Sign out')), h('span.soft', null, `version ${user.version ?? '?'}`));
	});
	effect(() => {
		const other = me.value?.digest && me.value.digest !== digest;
		banner.hidden = online.value && !other && !captures.value.length;
		fill(banner, !online.value ? 'The gateway does not answer. The page asks again every second; nothing that you typed is lost.' : [other ? ['The gateway has another version than this page. ', h('button', { onclick: () => location.reload() }, 'Load the page anew')] : null, captures.value.map((row) => h('div', null, kept(row)))]);
	});
	setInterval(() => online.held || get('me').then((fresh) => {
		me.value = fresh;
	}, () => {}), 1000);
}

async function leave() {
	await post('sign-out').catch(() => {});
	localStorage.removeItem(SIGNED_IN);
	location.reload();
}

let leaving = [];
let shown = '';
let number = 0;

async function show() {
	const { view, rest, query } = place.value;
	const name = JSON.stringify([view, rest]);
	if (!me.held || name === shown) return;
	const isFirst = !shown;
	shown = name;
	const turn = (number += 1);
	for (const work of leaving.splice(0)) work();
	const own = [];
	const leave = (work) => (turn === number ? own.push(work) : work());
	leaving = own;
	let node;
	try {
		if (view !== 'help' && !NAV.some(([, name]) => name === view)) throw new Error(`there is no view "${view.slice(0, 80)}"`);
		const module = await load(view);
		if (view !== 'home') await styles();
		node = await module.default({ rest, query, leave, watch: (work) => leave(effect(work)) });
	} catch (error) {
		node = h('div.view', null, h('h1', { tabindex: -1 }, 'This view cannot be shown'), failure(error));
	}
	if (turn !== number) return;
	fill(main, node);
	const title = main.querySelector('h1');
	document.title = `${title?.textContent?.slice(0, 80) ?? 'Console'} · Switchboard`;
	if (isFirst) {
		performance.mark('ready');
		void styles();
		whenIdle(ahead);
	} else {
		scrollTo(0, 0);
		title?.focus({ preventScroll: true });
	}
}

// Keys, and views before they are asked for.
function ahead() {
	import('./keys.js').then((keys) => {
		keys.listen();
		performance.mark('keys');
	});
	for (const [, view] of NAV) load(view).catch(() => {});
}

// Signed in: draws the frame once.
function enter(user) {
	localStorage.setItem(SIGNED_IN, '1');
	me.value = user;
	if (!frame) {
		draw();
		effect(() => void show());
	}
}

async function begin() {
	theme();
	const token = /^#link=(.+)$/.exec(location.hash)?.[1];
	const signIn = async () => {
		await styles();
		return import('./sign-in.js');
	};
	again.ask = async () => (await signIn()).dialog('This change runs a command, so it asks who you are once more.', enter);
	if (token) {
		history.replaceState(null, '', location.pathname + '#/');
		dispatchEvent(new HashChangeEvent('hashchange'));
		const answer = await post('sign-in', { link: token }).catch((error) => error);
		if (answer instanceof Error) return (await signIn()).door(enter, answer);
		enter(answer);
	} else {
		// Its view comes while the gateway says who this is.
		if (localStorage.getItem(SIGNED_IN)) load(place.held.view).catch(() => {});
		const user = localStorage.getItem(SIGNED_IN) ? await get('me').catch(() => null) : null;
		if (!user) (await signIn()).door(enter);
		else enter(user);
	}
}

effect(() => {
	// Over an open page the sign-in is a dialog: what was typed stays.
	if (me.value || !frame) return;
	localStorage.removeItem(SIGNED_IN);
	void import('./sign-in.js').then(({ dialog }) => dialog('The sign-in is over.', enter));
});
void begin();
