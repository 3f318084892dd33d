/**
 * The covariance of a weighted sum of finest geounits: a district, or one district minus another.
 *
 * Problem. Wanted is the covariance of the estimated cells of a region, a sum of finest geounits with weights.
 *
 * Variables. If the counts of a geounit change by x, the region's sum below it changes by T x; given the geounit's
 * counts, that sum has the covariance C. P, G, U, X, Y as in `filtering.js` and `unknown.js`.
 *
 * Steps. A geounit that is entirely in the region with one weight w needs no visit: T = w I and C = 0. Any other
 * geounit that the region touches is visited after its children c, which give
 *     A = sum of T_c P_c,   B = sum of T_c U_c,   M = sum of C_c + T_c P_c T_c'.
 * Then T = A G + B X and C = M - A G A' - B X A' - A X' B' + B Y B'. Above the root, the covariance is C + T V T' with
 * the covariance V of the sum of all roots.
 *
 * Stopping rule. Each geounit that is partly in the region is visited once, depth first. So memory is needed only for
 * one geounit of each level.
 *
 * Worked case. A parent and its two children are each measured with variance 1. The region is the first child. Given
 * the parent, T = 1/2 and C = 1 - 1/2 = 1/2. The parent's variance is 2/3, so the region's is 1/2 + 1/4 x 2/3 = 2/3.
 */

import { Tally } from "./grouping.js";
import { addProduct, addProductTransposed, addScaled, minus, product } from "./packing.js";

/** @typedef {import("./packing.js").Packing} Packing */

/**
 * What the sweep needs of one level.
 * @typedef {object} SweepLevel
 * @property {Int32Array} offsets Children of each geounit; empty at the finest level.
 * @property {Int32Array} finestOffsets Finest geounits of each geounit.
 * @property {Int32Array} rowOf Row of each geounit.
 * @property {number} rows Number of rows.
 * @property {(row: number) => { array: Float64Array, at: number }} covariance P of a row.
 * @property {(row: number) => { array: Float64Array, at: number }} gain G of a row.
 * @property {(row: number) => Float64Array | null} unknown U of a row, or null.
 * @property {(row: number) => { slope: Float64Array, excess: Float64Array } | null} rules X and Y of a row, or null.
 */

/**
 * Finest geounits with weights other than 0, increasing.
 * @typedef {object} Region
 * @property {Int32Array} geounits
 * @property {Float64Array} weights
 */

/** Sums of a geounit whose children are visited. */
class Sums {
  /**
   * @param {Packing} packing
   * @param {number} childRows Number of rows of the level below.
   */
  constructor(packing, childRows) {
    this.known = packing.zeros(); // A
    this.free = packing.zeros(); // B
    this.both = packing.zeros(); // M
    this.slope = packing.zeros(); // T
    this.someFree = false;
    this.tally = new Tally(childRows);
  }

  clear() {
    this.known.fill(0);
    this.free.fill(0);
    this.both.fill(0);
    this.slope.fill(0);
    this.someFree = false;
  }
}

/** Sweeps over the regions of one tree. */
export class RegionSweep {
  /**
   * @param {Packing} packing
   * @param {SweepLevel[]} levels The first holds one geounit, the sum of all roots.
   */
  constructor(packing, levels) {
    this.packing = packing;
    this.levels = levels;
    this.sums = levels.slice(0, -1).map((_, i) => new Sums(packing, levels[i + 1].rows));
    this.work = packing.zeros();
    this.turned = packing.zeros();
  }

  /**
   * The covariance of a region's cells.
   * @param {Region} region
   * @returns {Float64Array}
   */
  covariance(region) {
    const { packing } = this;
    const [root, n] = [this.levels[0], region.geounits.length];
    if (!n) return packing.zeros();
    const { array, at } = root.covariance(root.rowOf[0]);
    const outer = array.slice(at, at + packing.entries);
    const steady = steadyUntil(region.weights);
    if (this.isWhole(0, 0, region, steady, 0, n)) return outer.map((value) => value * region.weights[0] ** 2);
    this.visit(0, 0, region, steady, 0, n);
    const { slope, both } = this.sums[0];
    const out = both.slice();
    addProductTransposed(packing, product(packing, slope, outer), 0, slope, 0, 1, out, 0);
    return out;
  }

  /**
   * Whether entries begin to end - 1 of a region are a whole geounit with one weight.
   * @param {number} level @param {number} geounit
   * @param {Region} region @param {Int32Array} steady
   * @param {number} begin @param {number} end
   */
  isWhole(level, geounit, region, steady, begin, end) {
    const { finestOffsets } = this.levels[level];
    return end - begin === finestOffsets[geounit + 1] - finestOffsets[geounit] && steady[begin] >= end;
  }

  /**
   * Leaves T and C of a geounit in its level's sums.
   * @param {number} level @param {number} geounit
   * @param {Region} region @param {Int32Array} steady
   * @param {number} begin @param {number} end The geounit's entries of the region are begin to end - 1.
   */
  visit(level, geounit, region, steady, begin, end) {
    const [own, below, sums] = [this.levels[level], this.levels[level + 1], this.sums[level]];
    sums.clear();
    let child = own.offsets[geounit];
    for (let at = begin; at < end; ) {
      while (below.finestOffsets[child + 1] <= region.geounits[at]) child++;
      let next = at + 1;
      while (next < end && region.geounits[next] < below.finestOffsets[child + 1]) next++;
      if (this.isWhole(level + 1, child, region, steady, at, next)) {
        sums.tally.add(below.rowOf[child], region.weights[at]);
      } else {
        this.visit(level + 1, child, region, steady, at, next);
        this.addVisited(sums, this.sums[level + 1], below, below.rowOf[child]);
      }
      at = next;
    }
    this.addWhole(sums, below);
    this.finish(sums, own, own.rowOf[geounit]);
  }

  /**
   * Adds the children that are entirely in the region.
   * @param {Sums} sums
   * @param {SweepLevel} below
   */
  addWhole(sums, below) {
    const { entries } = this.packing;
    sums.tally.drain((row, weight, square) => {
      const { array, at } = below.covariance(row);
      addScaled(entries, weight, array, at, sums.known, 0);
      addScaled(entries, square, array, at, sums.both, 0);
      const free = below.unknown(row);
      if (!free) return;
      addScaled(entries, weight, free, 0, sums.free, 0);
      sums.someFree = true;
    });
  }

  /**
   * Adds a child that was visited.
   * @param {Sums} sums
   * @param {Sums} visited The child's T and C.
   * @param {SweepLevel} below
   * @param {number} row The child's row.
   */
  addVisited(sums, visited, below, row) {
    const { packing, work } = this;
    const { array, at } = below.covariance(row);
    work.fill(0);
    addProduct(packing, visited.slope, 0, array, at, 1, work, 0);
    addScaled(packing.entries, 1, work, 0, sums.known, 0);
    addScaled(packing.entries, 1, visited.both, 0, sums.both, 0);
    addProductTransposed(packing, work, 0, visited.slope, 0, 1, sums.both, 0);
    const free = below.unknown(row);
    if (!free) return;
    addProduct(packing, visited.slope, 0, free, 0, 1, sums.free, 0);
    sums.someFree = true;
  }

  /**
   * Turns A, B and M into T and C. C takes the place of M.
   * @param {Sums} sums
   * @param {SweepLevel} own
   * @param {number} row
   */
  finish(sums, own, row) {
    const { packing } = this;
    const { array, at } = own.gain(row);
    addProduct(packing, sums.known, 0, array, at, 1, sums.slope, 0);
    addProductTransposed(packing, sums.slope, 0, sums.known, 0, -1, sums.both, 0);
    const rules = sums.someFree ? own.rules(row) : null;
    if (!rules) return;
    const moved = product(packing, sums.free, rules.slope);
    addScaled(packing.entries, 1, moved, 0, sums.slope, 0);
    addProductTransposed(packing, moved, 0, sums.known, 0, -1, sums.both, 0);
    addProductTransposed(packing, sums.known, 0, moved, 0, -1, sums.both, 0);
    const excess = product(packing, sums.free, rules.excess);
    addProductTransposed(packing, excess, 0, sums.free, 0, 1, sums.both, 0);
  }
}

/**
 * For each entry, one past the last of the entries after it that have the same weight without a break.
 * @param {Float64Array} weights
 * @returns {Int32Array}
 */
function steadyUntil(weights) {
  const out = new Int32Array(weights.length);
  for (let i = weights.length - 1; i >= 0; i--) {
    out[i] = i + 1 < weights.length && weights[i + 1] === weights[i] ? out[i + 1] : i + 1;
  }
  return out;
}

/**
 * A set of finest geounits, or one set minus another. Geounits in both cancel.
 * @param {Int32Array} plus Each once, in any order.
 * @param {Int32Array | null} less Each once, in any order.
 * @returns {Region}
 */
export function regionOf(plus, less) {
  const added = plus.slice().sort();
  if (!less) return { geounits: added, weights: new Float64Array(added.length).fill(1) };
  const both = new Set(plus);
  const taken = less.slice().sort();
  const common = new Set(taken.filter((one) => both.has(one)));
  const kept = [...added].filter((one) => !common.has(one)).map((one) => /** @type {[number, number]} */ ([one, 1]));
  const lost = [...taken].filter((one) => !common.has(one)).map((one) => /** @type {[number, number]} */ ([one, -1]));
  const every = [...kept, ...lost].sort((a, b) => a[0] - b[0]);
  return { geounits: Int32Array.from(every, (one) => one[0]), weights: Float64Array.from(every, (one) => one[1]) };
}
