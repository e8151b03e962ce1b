// The list of failures that are the suite's own: who may be on it, and what it excuses.
//
//   side/set scenario[:check] | reason, with the number of the rule that decides

const RULE = /\b[A-Z]{2,8}-\d+\b/;

/** The entries of a list; an entry without a reason that names a rule is an error. */
export function parseExpected(text) {
  const entries = [];
  for (const [index, line] of text.split('\n').entries()) {
    if (!line.trim() || line.startsWith('#')) continue;
    const [use, reason] = line.split(/\s+\|\s+/, 2);
    const parts = /^((?:server|client)\/\S+) ([^\s:]+)(?::(\S+))?$/.exec(use.trim());
    if (!parts) throw new Error(`line ${index + 1} is not "side/set scenario[:check] | reason": ${line}`);
    if (!RULE.test(reason ?? '')) throw new Error(`line ${index + 1} gives no reason with a rule number: ${line}`);
    const [, suite, scenario, check] = parts;
    const same = (one) => one.suite === suite && one.scenario === scenario;
    if (entries.some((one) => same(one) && (!one.check || !check || one.check === check))) {
      throw new Error(`line ${index + 1} says again what an earlier one says: ${line}`);
    }
    entries.push({ suite, scenario, check, reason: reason.trim() });
  }
  return entries;
}

/**
 * Holds a result against the list: `ok` when nothing bad is left, `excused` the bad checks that are
 * listed, `left` those that are not, and `stale` the entries that excuse nothing any more.
 */
export function judge(suite, result, entries) {
  const ours = entries.filter((one) => one.suite === suite && one.scenario === result.scenario);
  const covers = (entry, bad) => !entry.check || entry.check === bad.id;
  const excused = result.bad.filter((bad) => ours.some((entry) => covers(entry, bad)));
  const left = result.bad.filter((bad) => !excused.includes(bad));
  const stale = ours.filter((entry) => !result.bad.some((bad) => covers(entry, bad)));
  return { ok: !left.length && !stale.length, excused, left, stale };
}
