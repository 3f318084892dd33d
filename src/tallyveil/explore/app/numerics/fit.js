/**
 * Variances of one model of a release: one of all tables, or one of a single table with merged cells.
 *
 * It makes the pass up the tree once, and then sweeps over any district (`regions.js`) or down the tree
 * (`smoothing.js`).
 */

import { Directions, NONE } from "./directions.js";
import { Filter } from "./filtering.js";
import { RegionSweep } from "./regions.js";
import { Smoother } from "./smoothing.js";
import { LevelRules } from "./unknown.js";

/** @typedef {import("./packing.js").Packing} Packing */
/** @typedef {import("./filtering.js").Filtered} Filtered */
/** @typedef {import("./regions.js").Region} Region */
/** @typedef {import("./regions.js").SweepLevel} SweepLevel */

/**
 * What is known about one level of the tree.
 * @typedef {object} Level
 * @property {import("./directions.js").Told} told What its queries and invariants determine.
 * @property {Float64Array[]} queries Q'Q of each measured query.
 * @property {Float64Array} precisions 1 / variance of each query; one row after the other.
 * @property {ArrayLike<number> | null} precisionOf The row of precisions of each geounit; null if there is one row.
 */

/**
 * Finest geounits by signature. Geounits with the same precisions and zeros share their blocks.
 * @typedef {object} Finest
 * @property {Int32Array} signature Signature of each geounit.
 * @property {ArrayLike<number>} precision For each signature, its row of precisions.
 * @property {ArrayLike<number>[]} zeros For each signature, 1 for each coefficient that is zero, and 0 for others.
 */

/**
 * Questions about the cells of a region.
 * @typedef {object} Questions
 * @property {Float64Array} grams Packed blocks; a variance is their product with those of the covariance.
 * @property {ArrayLike<number>} gramOf For each question, its row of `grams`.
 */

/**
 * @typedef {object} Model
 * @property {Packing} packing
 * @property {Int32Array[]} offsets Children of the geounits of each level above the finest; the sum of all roots first.
 * @property {Level[]} levels The sum of all roots first.
 * @property {Finest} finest
 */

/** A variance below this fraction of the sum of its terms' sizes is a rounding error of 0. */
const ROUNDING = 1e-13;
/** A question with more than this fraction of its weight in unknown directions has no estimate. */
const UNKNOWN_SHARE = 1e-7;

/** The covariances of one model. */
export class FitCovariance {
  /**
   * Makes the pass up the tree.
   * @param {Model} model
   * @param {Directions} [directions] Those of a model that differs only in precisions.
   */
  constructor(model, directions) {
    this.model = model;
    this.packing = model.packing;
    this.directions = directions ?? new Directions(model.packing);
    const filter = new Filter(this.packing, this.directions);
    const last = model.levels.length - 1;
    /** @type {Filtered[]} */
    this.levels = [];
    this.levels[last] = filter.finest(model.levels[last], model.finest);
    for (let level = last - 1; level >= 0; level--) {
      this.levels[level] = filter.inner(model.levels[level], model.offsets[level], this.levels[level + 1]);
    }
    this.rules = this.levels.slice(0, -1).map((own, i) => new LevelRules(filter, own, this.levels[i + 1]));
    this.someUnknown = this.levels.some((level) => level.unknown.some((one) => one !== NONE));
    this.finestOffsets = finestOffsets(model.offsets, this.levels[last].rowOf.length);
    this.sweep = new RegionSweep(this.packing, this.sweepLevels());
    this.unknownSweep = this.someUnknown ? new RegionSweep(this.packing, this.unknownLevels()) : null;
    this.smoother = new Smoother(this.packing, this.levels, this.rules, this.directions.projectors);
  }

  /**
   * The same model with other precisions.
   * @param {Float64Array[]} precisions Of each level, in the form of `Level.precisions`.
   */
  withPrecisions(precisions) {
    const levels = this.model.levels.map((level, i) => ({ ...level, precisions: precisions[i] }));
    return new FitCovariance({ ...this.model, levels }, this.directions);
  }

  /** @returns {SweepLevel[]} For the covariance of a region. */
  sweepLevels() {
    const { entries } = this.packing;
    return this.levels.map((level, i) => ({
      ...this.frame(i),
      covariance: (row) => ({ array: level.covariance, at: row * entries }),
      gain: (row) => ({ array: level.gain, at: row * entries }),
      unknown: (row) => this.projector(level.unknown[row]),
      rules: (row) => this.rules[i].of(row),
    }));
  }

  /** @returns {SweepLevel[]} For what remains unknown of a region: the same sweep with U for P and W for G. */
  unknownLevels() {
    const nothing = this.packing.zeros();
    return this.levels.map((level, i) => ({
      ...this.frame(i),
      covariance: (row) => ({ array: this.projector(level.unknown[row]) ?? nothing, at: 0 }),
      gain: (row) => ({ array: this.rules[i].of(row)?.weights ?? nothing, at: 0 }),
      unknown: () => null,
      rules: () => null,
    }));
  }

  /** @param {number} i */
  frame(i) {
    const level = this.levels[i];
    return {
      offsets: level.offsets,
      finestOffsets: this.finestOffsets[i],
      rowOf: level.rowOf,
      rows: level.known.length,
    };
  }

  /** @param {number} number */
  projector(number) {
    return number === NONE ? null : this.directions.projectors[number];
  }

  /**
   * The covariance of a region's cells, and what remains unknown of them.
   * @param {Region} region
   * @returns {import("./smoothing.js").Blocks}
   */
  regionBlocks(region) {
    const unknown = this.unknownSweep?.covariance(region) ?? null;
    return { covariance: this.sweep.covariance(region), unknown };
  }

  /**
   * Variances of questions about every geounit of a level.
   * @param {number} level 0 for the sum of all roots, 1 for the root geolevel, and so on.
   * @param {Questions} questions
   * @returns {{rowOf: Int32Array, variances: Float64Array[]}} Geounits with the same variances share a row.
   */
  levelVariances(level, questions) {
    /** @type {Float64Array[]} */
    const variances = [];
    this.smoother.each(level, (row, blocks) => {
      variances[row] = this.variances(blocks, questions);
    });
    return { rowOf: this.smoother.rows(level).rowOf, variances };
  }

  /**
   * Variances of questions; Infinity if the measurements do not determine the answer.
   * @param {import("./smoothing.js").Blocks} blocks Of a region or geounit.
   * @param {Questions} questions
   * @returns {Float64Array}
   */
  variances(blocks, questions) {
    const { entries } = this.packing;
    const n = questions.grams.length / entries;
    const found = new Float64Array(n);
    for (let k = 0; k < n; k++) {
      found[k] = positive(entries, questions.grams, k * entries, blocks.covariance);
      if (!blocks.unknown) continue;
      const whole = dot(entries, questions.grams, k * entries, this.directions.eye);
      if (dot(entries, questions.grams, k * entries, blocks.unknown) > UNKNOWN_SHARE * whole) found[k] = Infinity;
    }
    return Float64Array.from(questions.gramOf, (row) => found[row]);
  }
}

/** @type {(n: number, a: Float64Array, aAt: number, b: Float64Array) => number} */
function dot(n, a, aAt, b) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += a[aAt + i] * b[i];
  return sum;
}

/**
 * A product that cannot be negative: a variance. It is exactly 0 if only rounding errors of its terms are left.
 * @type {(n: number, a: Float64Array, aAt: number, b: Float64Array) => number}
 */
function positive(n, a, aAt, b) {
  const sum = dot(n, a, aAt, b);
  if (sum > 1) return sum;
  let size = 0;
  for (let i = 0; i < n; i++) size += Math.abs(a[aAt + i] * b[i]);
  return sum > ROUNDING * size ? sum : 0;
}

/**
 * The finest geounits of each geounit, level by level.
 * @param {Int32Array[]} offsets
 * @param {number} n Number of finest geounits.
 * @returns {Int32Array[]}
 */
function finestOffsets(offsets, n) {
  let below = Int32Array.from({ length: n + 1 }, (_, i) => i);
  const out = [below];
  for (let level = offsets.length - 1; level >= 0; level--) {
    const finer = below;
    below = offsets[level].map((child) => finer[child]);
    out.unshift(below);
  }
  return out;
}
