// Reads a profile of callgrind and counts what of our own code ran in it.

const OURS = /crates\/((?:proto|net|gateway)\/src\/.*\.rs)$/;
// Code that belongs to nobody: between a function of ours and one that it was given.
const LIBRARY = /\/(?:core|alloc|std)\/src\/|\/rustc\//;

/** The text without what is between angle brackets, where these have arguments of types. */
function withoutArguments(text) {
  let depth = 0;
  let kept = '';
  for (const [at, char] of [...text].entries()) {
    const isArrow = char === '>' && text[at - 1] === '-';
    if (char === '<') depth += 1;
    if (depth === 0) kept += char;
    if (char === '>' && !isArrow) depth -= 1;
  }
  return kept.replaceAll(/(::)+/g, '::').replace(/::$/, '');
}

/** Where the bracket at the beginning of a text is closed. */
function closing(text) {
  let depth = 0;
  for (const [at, char] of [...text].entries()) {
    if (char === '<') depth += 1;
    if (char === '>' && text[at - 1] !== '-') depth -= 1;
    if (depth === 0) return at;
  }
  return text.length;
}

/**
 * The function as it is in the source: its closures, the parts of an `async fn` and its
 * instances for other types are one function.
 */
export function functionOf(symbol) {
  const name = symbol.replace(/'\d+$/, '').replace(/::h[0-9a-f]{16}$/, '');
  const whole = name.replace(/::\{\{?(?:closure|async|shim|vtable)[^]*$/, '');
  if (!whole.startsWith('<')) return withoutArguments(whole);
  const end = closing(whole);
  const inner = whole.slice(1, end).split(' as ').map(withoutArguments).join(' as ');
  return `<${inner}>${withoutArguments(whole.slice(end + 1))}`;
}

/** The functions of a profile that is written with whole names: each with its file and with those that it calls. */
function nodesOf(profile) {
  const nodes = new Map();
  const node = (file, name) => {
    const key = `${file} ${name}`;
    if (!nodes.has(key)) nodes.set(key, { file, name, calls: new Set(), ran: false });
    return nodes.get(key);
  };
  let file = '';
  let called = '';
  let current;
  for (const line of profile.split('\n')) {
    const [, key, value] = /^(\w+)=(?:\(\d+\) ?)?(.*)$/.exec(line) ?? [];
    if (key === 'fl') [file, called] = [value, value];
    else if (key === 'fn') [current, called] = [node(file, value), file];
    else if (key === 'cfi' || key === 'cfl') called = value;
    else if (key === 'cfn') {
      current.calls.add(node(called, value));
      called = file;
    } else if (current && /^[+*\d]/.test(line)) current.ran = true;
  }
  return [...nodes.values()].filter(({ ran }) => ran);
}

/** What of ours ran: `files`, `functions`, and `steps`, the functions that lead to another of ours. */
export function countOurs(profile) {
  const ours = nodesOf(profile).filter(({ file, name }) => OURS.test(file) && !name.includes('drop_in_place'));
  const keyOf = ({ file, name }) => `${OURS.exec(file)[1]} ${functionOf(name)}`;
  const leads = (from) => {
    const seen = new Set([from]);
    for (const one of seen)
      for (const next of one.calls) {
        if (OURS.test(next.file)) {
          if (keyOf(next) !== keyOf(from)) return true;
        } else if (LIBRARY.test(next.file)) seen.add(next);
      }
    return false;
  };
  const sorted = (keys) => [...new Set(keys)].sort();
  return {
    files: sorted(ours.map(({ file }) => OURS.exec(file)[1])),
    functions: sorted(ours.map(keyOf)),
    steps: sorted(ours.filter(leads).map(keyOf)),
  };
}
