// Compares instruction counts with those that the repository keeps, and fails if one has grown.
//
//   node bench/counts.mjs RESULTS [--update]
//
// RESULTS is what `cargo bench -p switchboard-counts -- --output-format=json` prints: an object
// a line. `./test.sh counts` makes it.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const BASELINE = fileURLToPath(new URL('../crates/counts/counts.txt', import.meta.url));
const TIMES = 100; // As often as benches/counts.rs repeats each piece of work.
const LIMIT = 0.03;
// Another compiler or C library makes other code of the same source: what is beyond this is ours.
const LIMIT_ELSEWHERE = 0.1;

/** The counts by name, for one repetition. */
export function countsOf(results) {
  const counts = new Map();
  for (const line of results.split('\n').filter((text) => text.startsWith('{'))) {
    const { function_name: group, id, profiles } = JSON.parse(line);
    const { values } = profiles[0].data.total.metrics.Ir;
    counts.set(`${group} ${id}`, Math.round(Number(values.new) / TIMES));
  }
  return counts;
}

/** The baseline as a file has it. */
export function write(made, counts) {
  const head = [
    '# Instructions for each part and for each whole call. `./test.sh counts` compares them,',
    '# and `UPDATE=1 ./test.sh counts` writes this file.',
    `# Made with: ${made}`,
  ];
  const lines = [...counts].map(([name, count]) => `${name} ${count}`);
  return [...head, ...lines, ''].join('\n');
}

/** The file as a baseline. */
export function read(text) {
  const lines = text.split('\n').filter(Boolean);
  const made = /^# Made with: (.*)$/m.exec(text)?.[1];
  const counts = lines.filter((line) => !line.startsWith('#')).map((line) => {
    const [, name, count] = /^(.*) (\d+)$/.exec(line);
    return [name, Number(count)];
  });
  return { made, counts: new Map(counts) };
}

/** What differs, as rows of a table, and what is wrong. */
export function compare(before, now, limit) {
  const rows = [];
  const wrong = [];
  const better = [];
  for (const name of new Set([...before.keys(), ...now.keys()])) {
    const [old, count] = [before.get(name), now.get(name)];
    const change = old && count ? (count - old) / old : undefined;
    rows.push([name, old, count, change]);
    if (change === undefined) wrong.push(`${name}: ${count ? 'no count is kept of it' : 'it was not counted'}`);
    else if (change > limit) wrong.push(`${name}: ${percent(change)}`);
    else if (change < -LIMIT) better.push(`${name}: ${percent(change)}`);
  }
  return { rows, wrong, better };
}

const percent = (change) => `${change > 0 ? '+' : ''}${(100 * change).toFixed(2)} %`;

/** The rows as text. */
export function table(rows) {
  const cells = rows.map(([name, old, count, change]) => [
    name,
    old?.toLocaleString('en') ?? '-',
    count?.toLocaleString('en') ?? '-',
    change === undefined ? '-' : percent(change),
  ]);
  cells.unshift(['instructions', 'before', 'now', 'change']);
  const widths = cells[0].map((_, column) => Math.max(...cells.map((row) => row[column].length)));
  const pad = (text, column) => (column ? text.padStart(widths[column]) : text.padEnd(widths[column]));
  return cells.map((row) => row.map(pad).join('  ')).join('\n');
}

/** What the counts depend on besides our source. */
function surroundings() {
  const said = (...command) => execFileSync(command[0], command.slice(1), { encoding: 'utf8' }).trim().split('\n')[0];
  // valgrind offers a program no more than the processor has; some code is chosen by it at run time.
  const avx2 = /^flags.*\bavx2\b/m.test(fs.readFileSync('/proc/cpuinfo', 'utf8')) ? 'with' : 'without';
  return [said('rustc', '--version'), said('valgrind', '--version'), said('getconf', 'GNU_LIBC_VERSION'), `${process.arch} ${avx2} AVX2`].join(', ');
}

function main() {
  const { values, positionals } = parseArgs({ options: { update: { type: 'boolean' } }, allowPositionals: true });
  const now = countsOf(fs.readFileSync(positionals[0], 'utf8'));
  if (!now.size) throw new Error(`${positionals[0]} has no counts`);
  const made = surroundings();
  const kept = fs.existsSync(BASELINE) ? read(fs.readFileSync(BASELINE, 'utf8')) : { made, counts: new Map() };
  const limit = kept.made === made ? LIMIT : LIMIT_ELSEWHERE;
  const { rows, wrong, better } = compare(kept.counts, now, limit);
  console.log(table(rows));
  if (kept.made !== made) {
    // test.sh looks for the first words.
    console.log(`\nThe counts that are kept were made elsewhere, so that they may grow by ${100 * limit} % here:`);
    console.log(`  kept: ${kept.made}\n  here: ${made}`);
  }
  if (values.update) {
    fs.writeFileSync(BASELINE, write(made, now));
    console.log(`\nwrote ${BASELINE}`);
    return;
  }
  if (better.length) console.log(`\nLess than before; keep that with UPDATE=1 ./test.sh counts:\n  ${better.join('\n  ')}`);
  if (wrong.length) {
    console.error(`\nMore than ${100 * limit} % above the counts that are kept, or not comparable:\n  ${wrong.join('\n  ')}`);
    console.error('Find out why (callgrind_annotate target/gungraun/.../callgrind.*.out). If it is worth it, UPDATE=1 ./test.sh counts keeps it.');
    process.exitCode = 1;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();
