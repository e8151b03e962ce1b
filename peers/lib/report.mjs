// The lines of a run that people read.

/** Prints how a cell went, and gives the numbers of checks that passed and that failed. */
export function report(cell, { results, gaps, kept }, seconds, verbose) {
  const bad = results.filter(({ ok }) => !ok);
  const verdict = bad.length ? 'FAIL' : 'ok  ';
  const left = gaps.map(({ check }) => ` (gap: ${check})`).join('');
  console.log(`${verdict} ${cell.name}: ${results.length - bad.length}/${results.length} in ${seconds.toFixed(1)} s${left}`);
  for (const { check, detail } of bad) console.log(`     ${check}: ${detail ?? 'failed'}`);
  if (bad.length || verbose) for (const line of kept) console.log(`     | ${line}`);
  return [results.length - bad.length, bad.length];
}
