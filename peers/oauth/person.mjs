#!/usr/bin/env node
// A person with a browser that has neither window nor script: follows redirects with cookies, signs in,
// consents. `node peers/oauth/person.mjs [--deny] [--user NAME] URL`; fit to be `$BROWSER`.
// The last line on stdout is `STATUS URL` of the page where the person ends up, without its query.

import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { isLoopback } from './lib/loopback-only.mjs';

const MOST_STEPS = 30;
const STEP_MS = 20_000;
const AGAIN_MS = 100;
const LISTEN_MS = 5_000;

/** Cookies of each origin, with their paths. */
class Cookies {
  #kept = new Map();

  keep(url, response) {
    for (const line of response.headers.getSetCookie()) {
      const [pair, ...attributes] = line.split(';').map((part) => part.trim());
      const [name, value] = [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)];
      const path = attributes.find((one) => /^path=/i.test(one))?.slice(5) ?? '/';
      const key = `${url.origin} ${path} ${name}`;
      if (value) this.#kept.set(key, { origin: url.origin, path, name, value });
      else this.#kept.delete(key);
    }
  }

  for(url) {
    const fits = ({ origin, path }) =>
      origin === url.origin && (url.pathname === path || url.pathname.startsWith(path.endsWith('/') ? path : `${path}/`));
    return [...this.#kept.values()].filter(fits).map(({ name, value }) => `${name}=${value}`).join('; ');
  }
}

const plain = (html) => html.replace(/&#(x?)([0-9a-f]+);/gi, (_, hex, code) => String.fromCodePoint(parseInt(code, hex ? 16 : 10)))
  .replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');

function attributes(tag) {
  const found = [...tag.matchAll(/([a-z-]+)(?:\s*=\s*"([^"]*)"|\s*=\s*'([^']*)')?/gi)].slice(1);
  return Object.fromEntries(found.map(([, name, double, single]) => [name.toLowerCase(), plain(double ?? single ?? '')]));
}

const tags = (html, name) => (html.match(new RegExp(`<${name}\\b[^>]*>`, 'gi')) ?? []).map(attributes);

/** The first form of a page: where it goes, and its fields as a person fills them in. */
export function formOf(html, url, { user, deny, key }) {
  const [form] = /<form\b[^]*?<\/form>/i.exec(html) ?? [];
  if (!form) return undefined;
  const { action, id } = tags(form, 'form')[0];
  const fields = new URLSearchParams();
  for (const { type = 'text', name, value = '' } of tags(form, 'input')) {
    if (!name || type === 'submit') continue;
    fields.set(name, value || (name === 'key' ? key : type === 'password' ? 'x' : type === 'text' ? user : ''));
  }
  const buttons = [...tags(form, 'button'), ...tags(html.replace(form, ''), 'button').filter((one) => one.form === id && id)];
  const refusing = ({ name, value }) => /abort|cancel|deny/i.test(`${name} ${value}`);
  const pressed = deny ? buttons.find(refusing) : buttons.find((one) => one.name && !refusing(one));
  if (pressed?.name) fields.set(pressed.name, pressed.value ?? '');
  const refuse = tags(html, 'a').find(({ href }) => href && /abort|cancel|deny/i.test(href))?.href;
  return { url: new URL(action || url, url), fields, refuse: deny && refuse && new URL(refuse, url) };
}

async function step({ url, method, body }, cookies) {
  if (!isLoopback(url)) throw new Error(`${url.origin} is not on loopback`);
  const headers = { accept: 'text/html', cookie: cookies.for(url) };
  for (const since = Date.now(); ; await pause(AGAIN_MS)) {
    try {
      const response = await fetch(url, { method, body, headers, redirect: 'manual', signal: AbortSignal.timeout(STEP_MS) });
      cookies.keep(url, response);
      return response;
    } catch (error) {
      // Some clients listen at their callback only after they have opened the page; people are slower than that.
      if (error.cause?.code !== 'ECONNREFUSED' || Date.now() - since > LISTEN_MS) throw error;
    }
  }
}

/** Goes where `address` leads, but not to `stopAt`; gives the last page's status, URL and text. */
export async function visit(address, { user = 'ada', deny = false, key, say = () => {}, stopAt } = {}) {
  const cookies = new Cookies();
  let next = { url: new URL(address), method: 'GET' };
  for (let count = 0; count < MOST_STEPS; count += 1) {
    const response = await step(next, cookies);
    say(`${next.method} ${next.url.origin}${next.url.pathname} ${response.status}`);
    const location = response.headers.get('location');
    const text = await response.text();
    if (location && response.status >= 300 && response.status < 400) {
      next = { url: new URL(location, next.url), method: 'GET' };
      if (stopAt && next.url.href.startsWith(stopAt)) return { status: response.status, url: next.url, text };
      continue;
    }
    const leads = response.ok && tags(text, 'meta').find((meta) => meta['http-equiv'] === 'refresh')?.content;
    const onward = (leads && /^0;url=(.+)$/.exec(leads)?.[1]) ?? tags(text, 'a').find(({ id }) => id === 'go')?.href;
    if (onward) {
      next = { url: new URL(onward, next.url), method: 'GET' };
      if (stopAt && next.url.href.startsWith(stopAt)) return { status: response.status, url: next.url, text };
      continue;
    }
    const form = response.ok && formOf(text, next.url, { user, deny, key });
    if (!form) return { status: response.status, url: next.url, text };
    next = form.refuse ? { url: form.refuse, method: 'GET' } : { url: form.url, method: 'POST', body: form.fields };
  }
  throw new Error(`no end after ${MOST_STEPS} steps`);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      deny: { type: 'boolean', default: process.env.PERSON_DENIES === '1' },
      user: { type: 'string', default: process.env.PERSON ?? 'ada' },
    },
  });
  const { status, url } = await visit(positionals.at(-1), { ...values, say: (line) => console.log(line) });
  console.log(`${status} ${url.origin}${url.pathname}`);
  process.exitCode = status < 400 ? 0 : 1;
}
