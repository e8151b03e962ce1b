// Writes the tables of docs/library.md: five programs with our library and with rmcp, their
// lines, their dependencies and what compiling them costs; and the crates that each set of
// our features brings.
//
//   node examples/compare.mjs           lines and dependencies; compile times stay as they are
//   node examples/compare.mjs --build [PROGRAM...]   compiles all of them, or these, from nothing as well

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const page = join(root, 'docs/library.md');

const programs = [
  ['serve_stdio', 'server on stdio: a typed tool, a prompt, a resource'],
  ['embed', 'HTTP server in an axum application'],
  ['call', 'client of a URL or a command, with progress'],
  ['answer', 'client whose user answers the questions of a server'],
  ['proxy', 'any server as a server on stdio'],
];
const sides = [
  { folder: 'examples', manifest: 'Cargo.toml', crate: 'switchboard-examples' },
  { folder: 'peers/rmcp/examples', manifest: 'peers/rmcp/Cargo.toml', crate: 'rmcp-examples' },
];
const features = ['server', 'server,schema', 'server,schema,validate', 'server,schema,http', 'client', 'client,tls', 'client,tls,server,schema'];

const cargo = (args, options = {}) =>
  execFileSync('cargo', args, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26, ...options });

/** Lines that are neither empty nor a comment. */
function lines(file) {
  const text = readFileSync(join(root, file), 'utf8').split('\n');
  return text.filter((line) => line.trim() && !line.trim().startsWith('//')).length;
}

/** The crates that a package is compiled with, apart from itself. */
function crates(manifest, crate, enabled) {
  const tree = cargo(['tree', '--locked', '--quiet', '--manifest-path', manifest, '--package', crate,
    '--no-default-features', '--features', enabled, '--edges', 'normal', '--prefix', 'none']);
  const names = tree.split('\n').map((line) => line.split(' ').slice(0, 2).join(' ')).filter(Boolean);
  return new Set(names).size - 1;
}

/** The seconds of processor time that building a program takes, with all its dependencies. */
function seconds(manifest, crate, program) {
  const target = mkdtempSync(join(tmpdir(), 'compare-'));
  const build = `TIMEFORMAT='%U %S'; time cargo build --locked --quiet --manifest-path ${manifest} ` +
    `--package ${crate} --no-default-features --features ${program} --bin ${program} 2>/dev/null`;
  const environment = { ...process.env, CARGO_TARGET_DIR: target, CARGO_INCREMENTAL: '0', CARGO_PROFILE_DEV_DEBUG: '0' };
  try {
    const said = execFileSync('bash', ['-c', `{ ${build}; } 2>&1`], { cwd: root, encoding: 'utf8', env: environment });
    const [user, system] = said.trim().split('\n').at(-1).split(' ').map(Number);
    return Math.round(user + system);
  } finally {
    rmSync(target, { recursive: true, force: true });
  }
}

/** Replaces what stands between two marks on the page. */
function fill(text, mark, table) {
  const [begin, end] = [`<!-- ${mark} -->\n`, `<!-- end of ${mark} -->`];
  const [before, rest] = text.split(begin);
  if (rest === undefined || !rest.includes(end)) throw new Error(`${page} has no marks for ${mark}`);
  return `${before}${begin}${table}\n${end}${rest.split(end)[1]}`;
}

/** The compile times that are on the page, by program. */
function known(text, program) {
  const row = text.split('\n').find((line) => line.startsWith(`| [\`${program}\`]`)) ?? '';
  return [6, 7].map((cell) => row.split('|')[cell]?.trim() || 'not measured');
}

let text = readFileSync(page, 'utf8');
const [mode, ...chosen] = process.argv.slice(2);
const isBuilt = (program) => mode === '--build' && (chosen.length === 0 || chosen.includes(program));
const rows = programs.map(([program, what]) => {
  const [ours, theirs] = sides.map(({ folder, manifest, crate }) => ({
    lines: lines(`${folder}/${program}.rs`),
    crates: crates(manifest, crate, program),
    seconds: isBuilt(program) ? `${seconds(manifest, crate, program)} s` : undefined,
    link: `../${folder}/${program}.rs`,
  }));
  const [before, others] = known(text, program);
  return `| [\`${program}\`](${ours.link}) ([rmcp](${theirs.link})): ${what} | ${ours.lines} | ${theirs.lines} ` +
    `| ${ours.crates} | ${theirs.crates} | ${ours.seconds ?? before} | ${theirs.seconds ?? others} |`;
});
text = fill(text, 'programs', [
  '| program | lines | with rmcp | crates | with rmcp | compiling | with rmcp |',
  '|---|---|---|---|---|---|---|',
  ...rows,
].join('\n'));
text = fill(text, 'features', [
  '| features | crates |',
  '|---|---|',
  ...features.map((some) => `| \`${some.replaceAll(',', '`, `')}\` | ${crates('Cargo.toml', 'switchboard-net', some)} |`),
  `| all, the default | ${crates('Cargo.toml', 'switchboard-net', 'default')} |`,
].join('\n'));
writeFileSync(page, text);
