/**
 * How a geounit's error is shared among children that have directions about which nothing informs.
 *
 * Variables. For a geounit: S is the sum of the children's P, G its gain (see `filtering.js`), and W the pseudo-inverse
 * of the sum of the children's U.
 *
 * Steps. X = W (I - S G) and Y = W (S - S G S) W. If the geounit's estimate changes by x, a child's estimate changes by
 * (P G + U X) x.
 *
 * Worked case. Two children are not measured, and there is one cell: S = 0, G = 0, and each U is 1. So W = 1/2, X = 1/2
 * and Y = 0: each child gets half of the geounit's error.
 *
 * Source: `tallyveil.estimation.intervals.covariance`.
 */

import { NONE } from "./directions.js";
import { Tally } from "./grouping.js";
import { addScaled, minus, product } from "./packing.js";
import { pseudoInverse } from "./spectral.js";

/** @typedef {import("./filtering.js").Filtered} Filtered */
/** @typedef {import("./filtering.js").Filter} Filter */

/**
 * @typedef {object} Rules
 * @property {Float64Array} weights W.
 * @property {Float64Array} slope X.
 * @property {Float64Array} excess Y.
 */

/** The rules of the rows of one level, each made when it is first asked for. */
export class LevelRules {
  /**
   * @param {Filter} filter
   * @param {Filtered} level
   * @param {Filtered} below
   */
  constructor(filter, level, below) {
    this.filter = filter;
    this.level = level;
    this.below = below;
    this.any = below.unknown.some((one) => one !== NONE);
    /** @type {Map<number, Rules | null>} */
    this.made = new Map();
  }

  /**
   * The rules of a row, or null if its children have no unknown direction.
   * @param {number} row
   * @returns {Rules | null}
   */
  of(row) {
    if (!this.any) return null;
    const made = this.made.get(row);
    if (made !== undefined) return made;
    const fresh = this.make(row);
    this.made.set(row, fresh);
    return fresh;
  }

  /**
   * @param {number} row
   * @returns {Rules | null}
   */
  make(row) {
    const { level, below, filter } = this;
    const { packing, directions } = filter;
    const geounit = level.first[row];
    /** @type {Map<number, number>} */
    const counts = new Map();
    for (let child = level.offsets[geounit]; child < level.offsets[geounit + 1]; child++) {
      const unknown = below.unknown[below.rowOf[child]];
      if (unknown !== NONE) counts.set(unknown, (counts.get(unknown) ?? 0) + 1);
    }
    if (!counts.size) return null;
    const spread = packing.zeros();
    filter.sum(level, below, geounit, new Tally(below.known.length), spread);
    const gain = level.gain.slice(row * packing.entries, (row + 1) * packing.entries);
    const weights = this.weights(counts);
    const rest = product(packing, spread, gain);
    return {
      weights,
      slope: product(packing, weights, minus(directions.eye, rest)),
      excess: product(packing, weights, minus(spread, product(packing, rest, spread)), weights),
    };
  }

  /**
   * W, from how many children have each U. A projector is its own pseudo-inverse.
   * @param {Map<number, number>} counts
   * @returns {Float64Array}
   */
  weights(counts) {
    const { packing, directions } = this.filter;
    const sum = packing.zeros();
    for (const [unknown, count] of counts) {
      const share = counts.size === 1 ? 1 / count : count;
      addScaled(packing.entries, share, directions.projectors[unknown], 0, sum, 0);
    }
    return counts.size === 1 ? sum : pseudoInverse(packing, sum);
  }
}
