// The page is an MCP client like others: both eras, over Streamable HTTP at the same origin.

import { refusal } from './api.js';
import { texted } from './dom.js';

const MODERN = '2026-07-28';
const LEGACY = '2025-11-25';
const INFO = { name: 'switchboard-console', version: '1' };
const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
/** A server that asks for ever is asked no more. */
const ROUNDS = 20;
/** Pages of a list: 100,000 tools are cut here. */
const MOST = 20_000;

export class McpError extends Error {
	constructor(error) {
		super(texted(error.message ?? 'the server answered with an error'));
		this.code = error.code;
		this.data = error.data;
	}
}

function header(text) {
	if (/^[!-~](?:[\t -~]*[!-~])?$/.test(text) && !(text.startsWith('=?base64?') && text.endsWith('?='))) return text;
	let bytes = '';
	for (const byte of new TextEncoder().encode(text)) bytes += String.fromCharCode(byte);
	return `=?base64?${btoa(bytes)}?=`;
}

function mirror(schema, value, into, level = 0) {
	if (level > 12 || !value || typeof value !== 'object') return into;
	for (const [name, part] of Object.entries(schema?.properties ?? {})) {
		const given = value[name];
		if (given === undefined || given === null || typeof part !== 'object') continue;
		const named = part?.['x-mcp-header'];
		if (typeof named === 'string' && typeof given !== 'object') into[`Mcp-Param-${named}`] = header(String(given));
		else mirror(part, given, into, level + 1);
	}
	return into;
}

/** The parts of a body between `ends`, as they come. */
export async function parts(response, ends, heard) {
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = '';
	for (;;) {
		const { value, done } = await reader.read();
		const found = (rest + (value ?? '')).split(ends);
		rest = done ? '' : (found.pop() ?? '');
		for (const part of found) if (part && heard(part)) return void reader.cancel().catch(() => {});
		if (done) return;
	}
}

const greeted = (session) => ({ 'MCP-Protocol-Version': LEGACY, ...(session ? { 'Mcp-Session-Id': session } : {}) });

/** A client of one endpoint; the names of the protocol are those of its era. */
export class Client {
	ids = 0;
	session;
	/** The last cancel: the session must not end before the gateway has it. */
	cancelled;

	constructor(path = '/console/mcp', era = 'modern') {
		this.path = path;
		this.era = era;
	}

	async send(message, headers, heard, signal) {
		const response = await fetch(this.path, { method: 'POST', signal: signal ?? null, body: JSON.stringify({ jsonrpc: '2.0', ...message }), headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', 'X-Switchboard': 'console', ...headers } });
		if (response.headers.get('Content-Type')?.includes('text/event-stream')) await parts(response, /\r\n\r\n|\n\n|\r\r/, (event) => {
			const text = event.split(/\r\n|\n|\r/).filter((line) => line.startsWith('data:')).map((line) => line.slice(5)).join('\n');
			return text.trim() && heard(JSON.parse(text));
		});
		else if (response.status !== 202) {
			const copy = response.clone();
			const body = await response.json().catch(() => null);
			if (body?.jsonrpc) heard(body);
			else if (!response.ok) throw await refusal(copy);
		}
		return response;
	}

	/** Asks, answers what the server asks meanwhile, and gives the result. @param {Listener} on @returns {Promise<Json>} */
	async request(method, params = {}, on = {}) {
		if (this.era !== 'modern') return this.legacy(method, params, on);
		let more = {};
		for (let round = 0; round < ROUNDS; round += 1) {
			const key = 'io.modelcontextprotocol/';
			const _meta = { ...on.meta, [`${key}protocolVersion`]: MODERN, [`${key}clientInfo`]: INFO, [`${key}clientCapabilities`]: CAPABILITIES, ...(on.note ? { progressToken: this.ids, [`${key}logLevel`]: 'debug' } : {}) };
			const name = params.name ?? params.uri;
			const headers = { 'MCP-Protocol-Version': MODERN, 'Mcp-Method': method, ...(typeof name === 'string' ? { 'Mcp-Name': header(name) } : {}), ...(method === 'tools/call' ? mirror(on.schema, params.arguments, {}) : {}) };
			const { resultType, inputRequests, requestState, ...rest } = await this.exchange({ method, params: { ...params, ...more, _meta } }, headers, on);
			if (resultType !== 'input_required') return rest;
			const inputResponses = {};
			for (const [which, asked] of Object.entries(inputRequests ?? {})) inputResponses[which] = await this.answer(asked, on);
			more = { inputResponses, requestState };
		}
		throw new Error(`the server asked ${ROUNDS} times, and still gives no result`);
	}

	async answer({ method, params = {} }, on) {
		if (!on.question) throw new Error(`the server asks ${method}, and nobody is here to answer`);
		on.signal?.throwIfAborted();
		return on.question(method, params);
	}

	async legacy(method, params, on) {
		const session = await (this.session ??= this.begin());
		const requestId = this.ids + 1;
		const cancel = () => (this.cancelled = this.post({ method: 'notifications/cancelled', params: { requestId } }, session));
		on.signal?.addEventListener('abort', cancel);
		return this.exchange({ method, params: { ...params, _meta: { ...on.meta, ...(on.note ? { progressToken: requestId } : {}) } } }, greeted(session), on, session).finally(() => on.signal?.removeEventListener('abort', cancel));
	}

	post(message, session) {
		return this.send(message, greeted(session), () => false).catch(() => {});
	}

	// The handshake of the legacy era; gives the session's id.
	async begin() {
		let answer = {};
		const response = await this.send({ id: (this.ids += 1), method: 'initialize', params: { protocolVersion: LEGACY, capabilities: CAPABILITIES, clientInfo: INFO } }, {}, (message) => (answer = message));
		if (answer.error) throw new McpError(answer.error);
		const session = response.headers.get('Mcp-Session-Id') ?? '';
		await this.post({ method: 'notifications/initialized' }, session);
		return session;
	}

	async end() {
		const session = await this.session?.catch(() => '');
		await this.cancelled;
		if (session) await fetch(this.path, { method: 'DELETE', keepalive: true, headers: { 'X-Switchboard': 'console', ...greeted(session) } }).catch(() => {});
	}

	// Notes and questions may come before the answer.
	async exchange(request, headers, on, session) {
		let answer = {};
		const id = (this.ids += 1);
		await this.send({ ...request, id }, headers, (message) => {
			if (!message.method) answer = message;
			else if (message.id === undefined) on.note?.(message);
			else void this.asked(message, on, session);
			return !message.method;
		}, on.signal);
		if (answer.error) throw new McpError(answer.error);
		if (!answer.result) throw new Error('the stream ended before the answer');
		return answer.result;
	}

	async asked(message, on, session) {
		const reply = message.method === 'ping' ? { result: {} } : await this.answer(message, on).then((result) => ({ result }), (error) => ({ error: { code: -32603, message: error.message } }));
		await this.post({ id: message.id, ...reply }, session);
	}

	async list(method, member, page) {
		const all = [];
		let cursor;
		do {
			const answer = await this.request(method, cursor ? { cursor } : {});
			for (const item of Array.isArray(answer[member]) ? answer[member] : []) if (item && typeof item === 'object') all.push(item);
			page?.(all);
			cursor = answer.nextCursor;
		} while (cursor && all.length < MOST);
		return all;
	}
}
