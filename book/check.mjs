// Checks the documents: every relative link and anchor leads somewhere, the book has every page,
// and the page for troubleshooting has every message of the log, of refusals and of the doctor.

import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/// The errors that users see, beside those of the command line, which say what to do.
const ERRORS = [
  'gateway/src/config/expand.rs',
  'gateway/src/credential.rs',
  'net/src/access/guard.rs',
  'net/src/auth/jws.rs',
  'net/src/auth/store.rs',
  'net/src/http/fetch/fetch_error.rs',
  'net/src/http/tls.rs',
  'net/src/stdio/child/command.rs',
  'proto/src/auth.rs',
  'proto/src/auth/claims.rs',
  'proto/src/failure.rs',
  'proto/src/refusal.rs',
];
const MESSAGES = 'docs/troubleshooting.md';

/// The text without blocks of code, and without code inside of sentences where `inline` says so.
function prose(text, inline = true) {
  const blocks = text.replace(/^ *(```+)[^\n]*\n[\s\S]*?^ *\1 *$/gm, '');
  return inline ? blocks.replace(/(`+)[^`]*?\1/g, '') : blocks;
}

/// The anchors of a page: its headings, in the way of mdbook and of the usual forges.
export function anchors(text) {
  const seen = new Map();
  const headings = prose(text, false).matchAll(/^#{1,6} +(.+?) *$/gm);
  return new Set([...headings].map(([, heading]) => {
    const plain = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const slug = plain.replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-');
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${count}`;
  }));
}

/// Where a page links to, inside of the repository.
export function links(text) {
  const plain = prose(text);
  const inside = [...plain.matchAll(/\]\(([^)\s]+)\)/g), ...plain.matchAll(/^\[[^\]^]+\]: +(\S+)/gm)];
  return inside.map(([, target]) => target).filter((target) => !/^[a-z][a-z+.-]*:/i.test(target));
}

/// What is the same in every message of a text of the code, and says what happened: its first clause
/// of three words, else the longest.
export function fact(literal) {
  const text = literal.replace(/\\\n\s*/g, '').replaceAll('\\"', '"').replaceAll('\\\\', '\\');
  const filled = text.replace(/\{\{|\}\}|\{[^{}]*\}/g, (part) => ({ '{{': '{', '}}': '}' })[part] ?? '\0');
  const clauses = filled.split(/\0|[;:,](?=\s)/);
  const plain = clauses.map((clause) => clause.replace(/^[\s,.}]+|[\s,(]+$/g, ''));
  const longest = plain.reduce((best, clause) => (clause.length > best.length ? clause : best), '');
  return plain.find((clause) => clause.split(' ').length >= 3) ?? longest;
}

/// The messages of a file of Rust that people see in the log, in errors and from the doctor.
export function messages(code) {
  const source = code.replace(/#\[cfg\(test\)\]\s*mod [\s\S]*$/, '');
  const literal = '"((?:[^"\\\\]|\\\\[\\s\\S])*)"';
  // The text is what comes last in the macro, after its fields.
  const logs = [...source.matchAll(/tracing::(?:warn|error)!\(([\s\S]*?)\);/g)].flatMap(([, inner]) => {
    const texts = [...inner.matchAll(new RegExp(literal, 'g'))].map(([, text]) => text);
    return texts.filter((text) => text.includes(' ')).slice(0, 1);
  });
  return logs.map(fact).filter((text) => text.includes(' '));
}

/// The texts of the errors of a file.
export function errors(code) {
  const texts = code.matchAll(/#\[error\(\s*"((?:[^"\\]|\\[\s\S])*)"/g);
  return [...texts].map(([, text]) => fact(text)).filter((text) => text.includes(' '));
}

const FINDING = /"((?:command|connect|discover|greeting|http|list|message|oauth|sse|stdio|tool)\.[a-z0-9-]+|slow)"/g;

/// The ids of what the doctor may find.
export function findings(code) {
  return [...code.matchAll(FINDING)].map(([, id]) => id);
}

const read = (file) => readFileSync(join(ROOT, file), 'utf8');

function files(folder, ends) {
  return readdirSync(join(ROOT, folder), { recursive: true })
    .map((file) => join(folder, String(file)))
    .filter((file) => file.endsWith(ends))
    .sort();
}

function brokenLinks(pages) {
  const broken = [];
  for (const page of pages) {
    for (const target of links(read(page))) {
      const [path, anchor] = target.split('#');
      const file = path === '' ? page : normalize(join(dirname(page), decodeURI(path)));
      if (file.startsWith('..') || !existsSync(join(ROOT, file))) {
        broken.push(`${page}: ${target} is not there`);
      } else if (anchor && file.endsWith('.md') && !anchors(read(file)).has(anchor)) {
        broken.push(`${page}: ${target}: ${file} has no such heading`);
      } else if (anchor && statSync(join(ROOT, file)).isDirectory()) {
        broken.push(`${page}: ${target}: a folder has no headings`);
      }
    }
  }
  return broken;
}

function missingPages(pages) {
  const summary = new Set(links(read('docs/SUMMARY.md')).map((file) => join('docs', file)));
  const inside = pages.filter((page) => page.startsWith('docs/') && page !== 'docs/SUMMARY.md');
  return inside.filter((page) => !summary.has(page)).map((page) => `docs/SUMMARY.md: ${relative('docs', page)} is missing`);
}

function missingMessages() {
  const isTest = (file) => /(^|\/)tests(\/|\.rs$)/.test(file);
  const sources = ['cli', 'gateway', 'net', 'proto'].flatMap((crate) => files(`crates/${crate}/src`, '.rs'));
  const wanted = sources.filter((file) => !isTest(file)).flatMap((file) => messages(read(file)));
  wanted.push(...ERRORS.flatMap((file) => errors(read(`crates/${file}`))));
  for (const file of sources.filter((file) => file.includes('cli/src/doctor') && !isTest(file))) {
    wanted.push(...findings(read(file)).map((id) => `\`${id}\``));
  }
  const page = read(MESSAGES);
  const missing = [...new Set(wanted)].filter((text) => !page.includes(text));
  return missing.map((text) => `${MESSAGES}: not explained: ${text}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const pages = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', ...files('docs', '.md')];
  const wrong = [...brokenLinks(pages), ...missingPages(pages), ...missingMessages()];
  for (const line of wrong) {
    console.error(line);
  }
  console.log(`${pages.length} pages, ${wrong.length} mistakes`);
  process.exitCode = wrong.length > 0 ? 1 : 0;
}
