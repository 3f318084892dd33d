/** Sets of finest geounits as rising rows: joined, taken apart, and written into addresses. */

const LONGEST = 8000; // characters of a set in an address

/**
 * The rows of two sets together.
 * @param {Int32Array} one
 * @param {Int32Array} other
 */
export function union(one, other) {
  return Int32Array.from(new Set([...one, ...other])).sort();
}

/**
 * The rows of one set that are not in the other.
 * @param {Int32Array} one
 * @param {Int32Array} other
 */
export function without(one, other) {
  const out = new Set(other);
  return one.filter((row) => !out.has(row));
}

/**
 * The rows that are in one of two sets, and not in both.
 * @param {Int32Array} one
 * @param {Int32Array} other
 */
export function toggled(one, other) {
  return union(without(one, other), without(other, one));
}

/**
 * A set as text, such as "3-17,40"; null if it is too long for an address.
 * @param {Int32Array} rows
 * @returns {string | null}
 */
export function rowsText(rows) {
  const parts = [];
  for (let place = 0; place < rows.length;) {
    let last = place;
    while (last + 1 < rows.length && rows[last + 1] === rows[last] + 1) last++;
    parts.push(last === place ? `${rows[place]}` : `${rows[place]}-${rows[last]}`);
    place = last + 1;
  }
  const text = parts.join(",");
  return text.length > LONGEST ? null : text;
}

/**
 * The set that a text tells. Rows must rise, as `rowsText` writes them: a short text could otherwise name billions.
 * @param {string} text
 * @param {number} n how many rows there are
 * @returns {Int32Array | null} null if the text tells none
 */
export function parseRows(text, n) {
  const rows = [];
  let before = -1;
  for (const part of text.split(",")) {
    const found = /^(\d+)(?:-(\d+))?$/.exec(part);
    if (!found) return null;
    const first = Number(found[1]);
    const last = Number(found[2] ?? found[1]);
    if (first <= before || last < first || last >= n) return null;
    for (let row = first; row <= last; row++) rows.push(row);
    before = last;
  }
  return Int32Array.from(rows);
}
