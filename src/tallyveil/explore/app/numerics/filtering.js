/**
 * One level of the pass up the tree: what the measurements in a geounit's subtree say about it.
 *
 * Problem. The covariances P of the children's estimates, given their own subtrees, are known. Wanted is the
 * covariance of the geounit's estimate, given everything at and below it.
 *
 * Variables. S is the sum of the children's P. Z and U say what is known exactly and what nothing informs about
 * (`directions.js`). G is the inverse of S on the remaining directions. L is the information of the geounit's own
 * measurements, the sum of Q'Q / variance. J = G + L.
 *
 * Steps. P is the inverse of J on the directions that are neither known nor unknown after the geounit's own
 * measurements and invariants.
 *
 * Worked case. Two children have variance 1 each, and the geounit is measured with variance 1; there is one cell.
 * S = 2, G = 1/2, L = 1, J = 3/2. So P = 2/3.
 *
 * Source: `tallyveil.estimation.intervals.covariance`, which also gives the estimates.
 */

import { NONE } from "./directions.js";
import { grouped, Tally } from "./grouping.js";
import { Inverter } from "./inverse.js";
import { addScaled, product } from "./packing.js";

/** @typedef {import("./packing.js").Packing} Packing */
/** @typedef {import("./directions.js").Directions} Directions */
/** @typedef {import("./fit.js").Level} Level */

/**
 * Geounits of one level, given everything at and below them. Blocks are packed, one matrix for each row.
 * @typedef {object} Filtered
 * @property {Int32Array} offsets Children of geounit g are `offsets[g]` to `offsets[g + 1] - 1`; empty at the finest.
 * @property {Int32Array} rowOf Row of each geounit.
 * @property {Int32Array} first The first geounit of each row.
 * @property {Float64Array} covariance P of each row.
 * @property {Float64Array} gain G of each row; empty at the finest level.
 * @property {Int32Array} known Number of Z of each row.
 * @property {Int32Array} unknown Number of U of each row, or NONE.
 */

/** The steps of one tree. */
export class Filter {
  /**
   * @param {Packing} packing
   * @param {Directions} directions
   */
  constructor(packing, directions) {
    this.packing = packing;
    this.directions = directions;
    this.inverter = new Inverter(packing);
    this.work = packing.zeros();
  }

  /**
   * The finest geounits.
   * @param {Level} own
   * @param {import("./fit.js").Finest} finest
   * @returns {Filtered}
   */
  finest(own, finest) {
    const none = new Int32Array(0);
    const level = empty(this.packing, none, finest.signature, none, finest.zeros.length, false);
    const nothing = this.packing.zeros();
    const informations = this.informations(own);
    finest.zeros.forEach((zeros, row) => {
      const known = this.directions.number(this.packing.diagonal(zeros));
      const unknown = this.directions.numberIfAny(this.directions.free(known, NONE));
      this.finish(own, level, row, finest.precision[row], informations, nothing, known, unknown);
    });
    return level;
  }

  /**
   * Geounits with children.
   * @param {Level} own
   * @param {Int32Array} offsets
   * @param {Filtered} below
   * @param {import("./grouping.js").Rows} [rows] Those of the same level under other precisions.
   * @returns {Filtered}
   */
  inner(own, offsets, below, rows = grouped(offsets, below.rowOf, own.precisionOf)) {
    const level = empty(this.packing, offsets, rows.rowOf, rows.first, rows.first.length, true);
    const tally = new Tally(below.known.length);
    const informations = this.informations(own);
    const spread = this.packing.zeros();
    rows.first.forEach((geounit, row) => {
      const children = this.sum(level, below, geounit, tally, spread);
      const known = this.directions.knownOfSum(children.known);
      const unknown = this.directions.unknownOfSum(children.unknown);
      this.writeGain(level, row, spread, known, unknown);
      const precision = own.precisionOf ? own.precisionOf[geounit] : 0;
      this.finish(own, level, row, precision, informations, spread, known, unknown);
    });
    return level;
  }

  /**
   * Writes S of a geounit. Returns the numbers of the children's Z and U, each once.
   * @param {Filtered} level
   * @param {Filtered} below
   * @param {number} geounit
   * @param {Tally} tally One for the rows below.
   * @param {Float64Array} spread
   */
  sum(level, below, geounit, tally, spread) {
    const { entries } = this.packing;
    for (let child = level.offsets[geounit]; child < level.offsets[geounit + 1]; child++) {
      tally.add(below.rowOf[child], 1);
    }
    const known = new Set();
    const unknown = new Set();
    spread.fill(0);
    tally.drain((row, count) => {
      addScaled(entries, count, below.covariance, row * entries, spread, 0);
      known.add(below.known[row]);
      unknown.add(below.unknown[row]);
    });
    return { known: increasing(known), unknown: increasing(unknown) };
  }

  /**
   * Writes G of a row.
   * @param {Filtered} level
   * @param {number} row
   * @param {Float64Array} spread S.
   * @param {number} known Z of the sum. @param {number} unknown U of the sum.
   */
  writeGain(level, row, spread, known, unknown) {
    let inside = spread;
    if (unknown !== NONE) {
      const { eye, projectors } = this.directions;
      const kept = eye.map((value, i) => value - projectors[unknown][i]);
      inside = product(this.packing, kept, spread, kept);
    }
    const space = this.directions.free(known, unknown);
    this.inverter.within(inside, 0, space, level.gain, row * this.packing.entries);
  }

  /**
   * Writes what a geounit's own measurements and invariants make of a row.
   * @param {Level} own
   * @param {Filtered} level
   * @param {number} row
   * @param {number} precision Which precisions it has.
   * @param {Float64Array} informations L of each.
   * @param {Float64Array} spread S.
   * @param {number} known Z of the sum. @param {number} unknown U of the sum.
   */
  finish(own, level, row, precision, informations, spread, known, unknown) {
    const { entries } = this.packing;
    const n = own.told.patterns.length;
    const precisions = own.precisions.subarray(precision * n, (precision + 1) * n);
    const after = this.directions.after(own.told, precisions, known, unknown);
    level.known[row] = after.known;
    level.unknown[row] = after.unknown;
    if (!own.told.told && unknown === NONE && !precisions.some((one) => one > 0)) {
      // A bypassed geounit is known exactly as well as its children.
      level.covariance.set(spread, row * entries);
      return;
    }
    this.work.fill(0);
    if (level.gain.length) addScaled(entries, 1, level.gain, row * entries, this.work, 0);
    addScaled(entries, 1, informations, precision * entries, this.work, 0);
    this.restrict(after.space);
    this.inverter.within(this.work, 0, after.space, level.covariance, row * entries);
  }

  /**
   * Restricts the matrix in `work` to a space, class by class.
   * @param {Float64Array} space
   */
  restrict(space) {
    const whole = isDiagonal(this.packing, space);
    if (!whole) {
      this.work = product(this.packing, space, this.work, space);
      return;
    }
    // Here the projection only sets rows and columns outside the space to zero.
    this.packing.dims.forEach((dim, k) => {
      const at = this.packing.begin[k];
      for (let i = 0; i < dim; i++) {
        for (let j = 0; j < dim; j++) {
          this.work[at + i * dim + j] *= space[at + i * (dim + 1)] * space[at + j * (dim + 1)];
        }
      }
    });
  }

  /**
   * L of each different row of precisions of a level.
   * @param {Level} own
   * @returns {Float64Array}
   */
  informations(own) {
    const { entries } = this.packing;
    const n = own.queries.length;
    const rows = n ? own.precisions.length / n : 1;
    const out = new Float64Array(rows * entries);
    for (let row = 0; row < rows; row++) {
      own.queries.forEach((query, q) => addScaled(entries, own.precisions[row * n + q], query, 0, out, row * entries));
    }
    return out;
  }
}

/**
 * @param {Packing} packing
 * @param {Int32Array} offsets @param {Int32Array} rowOf @param {Int32Array} first
 * @param {number} rows @param {boolean} withGain
 * @returns {Filtered}
 */
function empty(packing, offsets, rowOf, first, rows, withGain) {
  return {
    offsets,
    rowOf,
    first,
    covariance: new Float64Array(rows * packing.entries),
    gain: new Float64Array(withGain ? rows * packing.entries : 0),
    known: new Int32Array(rows),
    unknown: new Int32Array(rows).fill(NONE),
  };
}

/**
 * Whether all blocks are diagonal.
 * @param {Packing} packing
 * @param {Float64Array} a
 */
function isDiagonal(packing, a) {
  for (let k = 0; k < packing.dims.length; k++) {
    const [dim, at] = [packing.dims[k], packing.begin[k]];
    for (let i = 0; i < dim; i++) {
      for (let j = 0; j < dim; j++) if (i !== j && a[at + i * dim + j] !== 0) return false;
    }
  }
  return true;
}

/**
 * @param {Set<number>} numbers
 * @returns {number[]}
 */
function increasing(numbers) {
  return [...numbers].sort((a, b) => a - b);
}
