// Tries a tool, prompt or resource, and gives the same as a command.

import { at } from './api.js';
import { outcome, question } from './content.js';
import { fill, h, HIDDEN, plain, texted } from './dom.js';
import { form } from './form.js';
import { Client } from './mcp.js';
import { fits } from './schema.js';
import { copy } from './table.js';
import { failure, note, state, took } from './ui.js';

const NOTES = 200;

/** Where a server is asked, or all of them. */
export const endpoint = (server) => (server ? at`/console/servers/${server}/mcp` : '/console/mcp');

/** @returns {[string, Json]} */
function request(thing, given) {
	if (thing.kind === 'prompts') return ['prompts/get', { name: thing.name, arguments: given }];
	if (thing.kind === 'resources') return ['resources/read', { uri: texted(thing.item.uri ?? thing.item.uriTemplate).replace(/\{\+?([^}]+)\}/g, (_, name) => encodeURIComponent(given[name] ?? '')) }];
	return ['tools/call', { name: thing.name, arguments: given }];
}

const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
// JSON in which hidden characters are written as escapes.
const written = (value, indent = 0) => JSON.stringify(value, null, indent).replace(HIDDEN, (one) => one.split('').map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join(''));

function commands(thing, given) {
	const url = location.origin + endpoint(thing.server).slice('/console'.length);
	const [method, params] = request(thing, given);
	const verb = { 'tools/call': 'call', 'prompts/get': 'prompt', 'resources/read': 'read' }[method];
	const json = params.arguments && Object.keys(params.arguments).length ? ` --json ${quoted(written(params.arguments))}` : '';
	const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 'curl', version: '1' }, 'io.modelcontextprotocol/clientCapabilities': {} };
	return {
		ours: `switchboard ${verb} ${url} ${quoted(params.name ?? params.uri)}${json} -H 'Authorization: Bearer \${SWITCHBOARD_KEY}'`,
		curl: `curl ${url} -H "Authorization: Bearer $SWITCHBOARD_KEY" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: ${method}' -H ${quoted(`Mcp-Name: ${params.name ?? params.uri}`)} -d ${quoted(written({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } }))}`,
	};
}

export function attempt(view, thing) {
	const text = h('textarea.mono', { rows: 8, id: 'json', 'aria-describedby': 'json-wrong' });
	const wrong = h('div.wrong', { id: 'json-wrong' });
	const write = () => {
		text.value = written(drawn.get() ?? {}, 2);
		fill(wrong);
	};
	const drawn = form(thing.schema, write);
	write();
	text.addEventListener('input', () => {
		try {
			drawn.set(JSON.parse(text.value || '{}'));
			fill(wrong);
		} catch (error) {
			fill(wrong, `This is no JSON yet: ${error.message}`);
		}
	});
	const live = h('div.stack', { role: 'status' });
	const asked = h('div.stack');
	const result = h('div.stack');
	const era = h('select', { 'aria-label': 'Era of the protocol' }, h('option', { value: 'modern' }, 'modern, 2026-07-28'), h('option', { value: 'legacy' }, 'legacy, 2025-11-25'));
	const meta = h('textarea.mono', { rows: 2, 'aria-label': 'More members of _meta, as JSON', placeholder: '{"example.com/key": 1}' });
	let running = null;
	const cancel = h('button.danger', { disabled: true, onclick: () => running?.abort(new Error('you cancelled the call')) }, 'Cancel');
	const call = async () => {
		if (running || !drawn.check()) return;
		const own = (running = new AbortController());
		const given = drawn.get() ?? {};
		const client = new Client(endpoint(thing.server), era.value);
		const begun = performance.now();
		const bar = h('progress', { 'aria-label': 'Progress' });
		const notes = h('div.log', { hidden: true, tabindex: 0, role: 'log', 'aria-label': 'Log records' });
		const said = h('span.soft.any', null, 'running');
		fill(live, h('div.row', null, bar, said), notes);
		fill(result);
		go.disabled = true;
		cancel.disabled = false;
		try {
			const extra = meta.value.trim() ? JSON.parse(meta.value) : undefined;
			const answer = await client.request(...request(thing, given), { signal: own.signal, schema: thing.schema, meta: extra, question: (method, params) => question(asked, method, params, own.signal), note: (message) => {
				const params = message.params ?? {};
				if (message.method === 'notifications/progress') {
					if (Number.isFinite(params.progress) && Number.isFinite(params.total) && params.total > 0) bar.value = params.progress / params.total;
					fill(said, params.progress, params.total ? [' of ', params.total] : null, ' ', params.message);
				} else if (message.method === 'notifications/message') {
					notes.hidden = false;
					notes.append(h('div', null, h('b', null, params.level), h('span.grow', null, plain(typeof params.data === 'string' ? params.data : JSON.stringify(params.data), 2000))));
					while (notes.childElementCount > NOTES) notes.firstElementChild?.remove();
				}
			} });
			const misfit = thing.item.outputSchema && !answer.isError && (answer.structuredContent === undefined || !fits(thing.item.outputSchema, thing.item.outputSchema, answer.structuredContent));
			fill(result, h('div.row', null, state(answer.isError ? 'tool_error' : 'ok', answer.isError ? 'failed' : 'done'), h('span.soft', null, `in ${took(performance.now() - begun)}`)), misfit ? note('warn', 'The result is not of the tool’s output schema.') : null, ...outcome(answer));
		} catch (error) {
			const it = own.signal.aborted ? own.signal.reason : error;
			fill(result, failure(it), it.code ? h('p.small.soft', null, 'JSON-RPC code ', it.code) : null);
		} finally {
			bar.remove();
			said.remove();
			fill(asked);
			running = null;
			go.disabled = false;
			cancel.disabled = true;
			void client.end();
		}
	};
	const go = h('button.main', { onclick: call }, { tools: 'Call', prompts: 'Get', resources: 'Read' }[thing.kind] ?? 'Call', h('span.vh', null, ' with the values of the form'));
	view.leave(() => running?.abort());
	const node = h('section.card.stack', { 'aria-labelledby': 'try', onkeydown: (event) => {
		if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void call();
		if (event.altKey && event.code === 'KeyJ') {
			event.preventDefault();
			(document.activeElement === text ? go : text).focus();
		}
	} },
	h('h2', { id: 'try' }, 'Try it'),
	h('div.split', null, drawn.node, h('div.field', null, h('label', { htmlFor: 'json' }, 'The same as JSON', h('span.type', null, 'Alt+J')), text, wrong)),
	h('div.row', null, go, cancel, h('span.soft.small', null, h('kbd', null, 'Ctrl'), ' ', h('kbd', null, 'Enter')), h('span.grow'), copy(() => commands(thing, drawn.get() ?? {}).ours, 'Copy as command'), copy(() => commands(thing, drawn.get() ?? {}).curl, 'Copy as curl')),
	h('details.small', null, h('summary', null, 'More: era and _meta'), h('div.stack', null, era, meta)),
	live, asked, result);
	return node;
}
