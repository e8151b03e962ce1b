// A few cells of the matrix in which every two values meet that meet in all of its cells.

/** The values of a cell: the name and the value of each dimension. A cell has many features. */
const valuesOf = ({ client, server, down, up, era, serverEra, features }) => [
  ...Object.entries({ client, server, down, up, era, serverEra }).filter(([, value]) => value !== undefined),
  ...features.map((feature) => ['feature', feature]),
];

/** Every two values of different dimensions that meet in this cell. */
export function pairsOf(cell) {
  const values = valuesOf(cell);
  return values.flatMap(([one, a], index) =>
    values.slice(index + 1).filter(([other]) => other !== one).map(([other, b]) => `${one} ${a}, ${other} ${b}`));
}

/** The cells to run instead of all: the one with the most new pairs first, the same ones each time. */
export function cover(cells) {
  const pairs = new Map(cells.map((cell) => [cell, pairsOf(cell)]));
  const missing = new Set([...pairs.values()].flat());
  const news = (cell) => pairs.get(cell).filter((pair) => missing.has(pair)).length;
  const chosen = [];
  while (missing.size) {
    const [best] = cells.map((cell) => [cell, news(cell)]).reduce((a, b) => (b[1] > a[1] ? b : a));
    pairs.get(best).forEach((pair) => missing.delete(pair));
    chosen.push(best);
  }
  return chosen;
}
