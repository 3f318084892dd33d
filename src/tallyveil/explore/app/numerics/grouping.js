/**
 * Geounits that share their blocks.
 *
 * What the measurements in a geounit's subtree tell depends only on its own precisions and on how many children of
 * each kind it has. So geounits that agree in these are one *row*, and the blocks of a row are computed once.
 */

/**
 * @typedef {object} Rows
 * @property {Int32Array} rowOf Row of each geounit.
 * @property {Int32Array} first The first geounit of each row.
 */

/**
 * Rows of the geounits of a level above the finest.
 * @param {Int32Array} offsets The children of geounit g are `offsets[g]` to `offsets[g + 1] - 1`.
 * @param {ArrayLike<number>} childRows Row of each child.
 * @param {ArrayLike<number> | null} precisionOf Which precisions each geounit has; null if all have the same.
 * @returns {Rows}
 */
export function grouped(offsets, childRows, precisionOf) {
  const n = offsets.length - 1;
  const rowOf = new Int32Array(n);
  /** @type {number[]} */
  const first = [];
  /** @type {Map<string, number>} */
  const known = new Map();
  const own = Int32Array.from(childRows);
  for (let geounit = 0; geounit < n; geounit++) {
    const children = own.subarray(offsets[geounit], offsets[geounit + 1]).slice().sort();
    const key = `${precisionOf ? precisionOf[geounit] : 0}:${runs(children)}`;
    let row = known.get(key);
    if (row === undefined) {
      row = first.length;
      known.set(key, row);
      first.push(geounit);
    }
    rowOf[geounit] = row;
  }
  return { rowOf, first: Int32Array.from(first) };
}

/**
 * Each value of a sorted array with how often it occurs, as text.
 * @param {Int32Array} sorted
 * @returns {string}
 */
function runs(sorted) {
  let text = "";
  for (let i = 0; i < sorted.length; ) {
    let next = i + 1;
    while (next < sorted.length && sorted[next] === sorted[i]) next++;
    text += `${sorted[i]}*${next - i},`;
    i = next;
  }
  return text;
}

/**
 * Counts how often each number occurs, and goes back to zero without looking at all numbers.
 */
export class Tally {
  /** @param {number} n Numbers are 0 to n - 1. */
  constructor(n) {
    this.sums = new Float64Array(n);
    this.squares = new Float64Array(n);
    /** @type {number[]} */
    this.met = [];
  }

  /**
   * @param {number} number @param {number} weight
   */
  add(number, weight) {
    if (this.squares[number] === 0) this.met.push(number);
    this.sums[number] += weight;
    this.squares[number] += weight * weight;
  }

  /**
   * Calls a function with each number, the sum of its weights and that of their squares; then forgets them.
   * @param {(number: number, sum: number, squares: number) => void} act
   */
  drain(act) {
    for (const number of this.met.sort((a, b) => a - b)) {
      act(number, this.sums[number], this.squares[number]);
      this.sums[number] = 0;
      this.squares[number] = 0;
    }
    this.met.length = 0;
  }
}
