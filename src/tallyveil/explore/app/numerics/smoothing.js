/**
 * Covariances V of single geounits, given all measurements: the pass down the tree.
 *
 * Problem. P of a geounit takes only the measurements at and below it into account. Wanted is its covariance V given
 * all of them.
 *
 * Steps. At the top, V = P. If the parent's estimate changes by x, a child's changes by (P G + U X) x. Given the
 * parent, the child has the covariance P - P G P - U X P - P X' U + U Y U. Adding the effect of the parent's error
 * gives V. Without unknown directions, V = P + P (G V' G - G) P, where V' is the V of the parent. What remains unknown
 * follows by the same rule, with U for P and W for G.
 *
 * Geounits with the same blocks P, under parents with the same V, share V. The finest geounits' V are not stored.
 *
 * Worked case. A parent and its two children are each measured with variance 1, and there is one cell. Each child has
 * P = 1, so S = 2 and G = 1/2. The parent has V' = 2/3. A child has V = 1 + (1/4 x 2/3 - 1/2) = 2/3.
 *
 * Source: `tallyveil.estimation.intervals.covariance`.
 */

import { NONE } from "./directions.js";
import { addProduct, addScaled, minus, product, symmetrise, transposed } from "./packing.js";

/** @typedef {import("./packing.js").Packing} Packing */
/** @typedef {import("./filtering.js").Filtered} Filtered */
/** @typedef {import("./unknown.js").Rules} Rules */
/** @typedef {import("./unknown.js").LevelRules} LevelRules */

/**
 * Geounits of a level, given all measurements.
 * @typedef {object} Smoothed
 * @property {Int32Array} rowOf Row of each geounit, among the rows of V.
 * @property {Int32Array} filtered For each row, the row of P.
 * @property {Int32Array} parent For each row, the parent's row of V.
 */

/**
 * Blocks of one row.
 * @typedef {object} Blocks
 * @property {Float64Array} covariance V.
 * @property {Float64Array | null} unknown The projector on what remains unknown, or null.
 */

/**
 * A parent's part in the V of its children.
 * @typedef {object} Above
 * @property {Float64Array} covariance V'.
 * @property {Float64Array} gain G.
 * @property {Float64Array} drop G V' G - G.
 * @property {Rules | null} rules
 * @property {Float64Array | null} unknown What remains unknown of the parent.
 */

/** The pass down one tree. */
export class Smoother {
  /**
   * @param {Packing} packing
   * @param {Filtered[]} levels The sum of all roots first.
   * @param {LevelRules[]} rules One for each level except the finest.
   * @param {Float64Array[]} projectors By number.
   */
  constructor(packing, levels, rules, projectors) {
    this.packing = packing;
    this.levels = levels;
    this.rules = rules;
    this.projectors = projectors;
    this.work = packing.zeros();
    const root = { rowOf: Int32Array.of(0), filtered: Int32Array.of(0), parent: Int32Array.of(NONE) };
    /** @type {Smoothed[]} */
    this.smoothed = [root];
    /** @type {Blocks[][]} */
    this.blocks = [[{ covariance: this.filtered(0, 0), unknown: this.unknown(0, 0) }]];
  }

  /**
   * P of a row of a level.
   * @param {number} level @param {number} row
   */
  filtered(level, row) {
    const { entries } = this.packing;
    return this.levels[level].covariance.slice(row * entries, (row + 1) * entries);
  }

  /**
   * U of a row of a level, or null.
   * @param {number} level @param {number} row
   */
  unknown(level, row) {
    const number = this.levels[level].unknown[row];
    return number === NONE ? null : this.projectors[number];
  }

  /**
   * Which geounits of a level share V.
   * @param {number} level
   * @returns {Smoothed}
   */
  rows(level) {
    for (let next = this.smoothed.length; next <= level; next++) {
      this.smoothed.push(sharing(this.levels[next - 1].offsets, this.smoothed[next - 1], this.levels[next].rowOf));
    }
    return this.smoothed[level];
  }

  /**
   * Calls a function with the blocks of each row of a level. The blocks of levels above are kept.
   * @param {number} level
   * @param {(row: number, blocks: Blocks) => void} act
   */
  each(level, act) {
    if (level < this.blocks.length) {
      this.blocks[level].forEach((blocks, row) => act(row, blocks));
      return;
    }
    /** @type {Blocks[]} */
    const parents = [];
    this.each(level - 1, (row, blocks) => {
      parents[row] = blocks;
    });
    if (level > 1) this.blocks[level - 1] = parents;
    const { filtered, parent } = this.rows(level);
    let held = NONE;
    /** @type {Above | null} */
    let above = null;
    for (let row = 0; row < filtered.length; row++) {
      if (!above || parent[row] !== held) above = this.above(level - 1, parent[row], parents[parent[row]]);
      held = parent[row];
      act(row, this.child(above, level, filtered[row]));
    }
  }

  /**
   * @param {number} level @param {number} row Row of V of the parent. @param {Blocks} blocks
   * @returns {Above}
   */
  above(level, row, blocks) {
    const { entries } = this.packing;
    const filtered = this.rows(level).filtered[row];
    const gain = this.levels[level].gain.slice(filtered * entries, (filtered + 1) * entries);
    const drop = minus(product(this.packing, gain, blocks.covariance, gain), gain);
    return { ...blocks, gain, drop, rules: this.rules[level].of(filtered) };
  }

  /**
   * The blocks of a child.
   * @param {Above} above
   * @param {number} level Level of the child. @param {number} row Row of P of the child.
   * @returns {Blocks}
   */
  child(above, level, row) {
    const unknown = this.unknown(level, row), filtered = this.filtered(level, row);
    if (!unknown || !above.rules) {
      const { covariance } = this.levels[level], at = row * this.packing.entries;
      this.work.fill(0);
      addProduct(this.packing, covariance, at, above.drop, 0, 1, this.work, 0);
      addProduct(this.packing, this.work, 0, covariance, at, 1, filtered, 0);
      symmetrise(this.packing, filtered, 0);
      return { covariance: filtered, unknown: null };
    }
    return {
      covariance: this.childWithUnknown(above, above.rules, filtered, unknown),
      unknown: this.lasting(above, above.rules, unknown),
    };
  }

  /**
   * @param {Above} above @param {Rules} rules
   * @param {Float64Array} filtered @param {Float64Array} unknown
   * @returns {Float64Array}
   */
  childWithUnknown(above, rules, filtered, unknown) {
    const { packing } = this;
    const moves = product(packing, filtered, above.gain);
    addProduct(packing, unknown, 0, rules.slope, 0, 1, moves, 0);
    const shared = product(packing, unknown, rules.slope, filtered);
    const out = minus(filtered, product(packing, filtered, above.gain, filtered), shared, transposed(packing, shared));
    addScaled(packing.entries, 1, product(packing, unknown, rules.excess, unknown), 0, out, 0);
    const moved = product(packing, moves, above.covariance, transposed(packing, moves));
    addScaled(packing.entries, 1, moved, 0, out, 0);
    symmetrise(packing, out, 0);
    return out;
  }

  /**
   * What remains unknown of a child.
   * @param {Above} above @param {Rules} rules @param {Float64Array} unknown
   * @returns {Float64Array}
   */
  lasting(above, rules, unknown) {
    const { packing } = this;
    const outer = above.unknown ?? packing.zeros();
    const drop = minus(product(packing, rules.weights, outer, rules.weights), rules.weights);
    const out = product(packing, unknown, drop, unknown);
    addScaled(packing.entries, 1, unknown, 0, out, 0);
    symmetrise(packing, out, 0);
    return out;
  }
}

/**
 * Children that share V: those with the same P under parents with the same V. Rows of one parent follow one another.
 * @param {Int32Array} offsets
 * @param {Smoothed} above
 * @param {Int32Array} filteredOf Row of P of each child.
 * @returns {Smoothed}
 */
function sharing(offsets, above, filteredOf) {
  const rowOf = new Int32Array(filteredOf.length);
  /** @type {number[]} */
  const filtered = [];
  /** @type {number[]} */
  const parent = [];
  /** @type {Map<number, number>[]} */
  const known = Array.from(above.filtered, () => new Map());
  for (let geounit = 0; geounit + 1 < offsets.length; geounit++) {
    const own = above.rowOf[geounit];
    for (let child = offsets[geounit]; child < offsets[geounit + 1]; child++) {
      let row = known[own].get(filteredOf[child]);
      if (row === undefined) {
        row = filtered.length;
        known[own].set(filteredOf[child], row);
        filtered.push(filteredOf[child]);
        parent.push(own);
      }
      rowOf[child] = row;
    }
  }
  return { rowOf, filtered: Int32Array.from(filtered), parent: Int32Array.from(parent) };
}
