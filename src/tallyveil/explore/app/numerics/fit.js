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
import { SparseGrams } from "./sparse_grams.js";
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

/**
 * What one model can take from another that differs only in precisions.
 * @typedef {object} Alike
 * @property {Model} model
 * @property {Directions} directions
 * @property {Map<Float64Array, SparseGrams>} grams
 * @property {Filtered[]} levels
 * @property {Int32Array[]} finestOffsets
 */

/** The covariances of one model. */
export class FitCovariance {
  /**
   * Makes the pass up the tree.
   * @param {Model} model
   * @param {Alike} [like] One of a model that differs only in precisions. What does not depend on these is
   *   taken from it, and so are all levels below the lowest one whose precisions differ.
   */
  constructor(model, like) {
    this.model = model;
    this.packing = model.packing;
    this.directions = like?.directions ?? new Directions(model.packing);
    /** @type {Map<Float64Array, SparseGrams>} */
    this.grams = like?.grams ?? new Map();
    const filter = new Filter(this.packing, this.directions);
    const last = model.levels.length - 1;
    let isSame = isEqual(model.levels[last], like?.model.levels[last]);
    /** @type {Filtered[]} */
    this.levels = [];
    this.levels[last] = like && isSame ? like.levels[last] : filter.finest(model.levels[last], model.finest);
    for (let level = last - 1; level >= 0; level--) {
      const own = model.levels[level];
      isSame &&= isEqual(own, like?.model.levels[level]);
      this.levels[level] = like && isSame ? like.levels[level]
        : filter.inner(own, model.offsets[level], this.levels[level + 1], like?.levels[level]);
    }
    this.rules = this.levels.slice(0, -1).map((own, i) => new LevelRules(filter, own, this.levels[i + 1]));
    this.someUnknown = this.levels.some((level) => level.unknown.some((one) => one !== NONE));
    this.finestOffsets = like?.finestOffsets ?? finestOffsets(model.offsets, this.levels[last].rowOf.length);
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
    return new FitCovariance({ ...this.model, levels }, this);
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
    const found = this.gramsOf(questions).variances(blocks);
    return Float64Array.from(questions.gramOf, (row) => found[row]);
  }

  /**
   * The Gram blocks of some questions, without their zeros.
   * @param {Questions} questions
   * @returns {SparseGrams}
   */
  gramsOf({ grams }) {
    const made = this.grams.get(grams) ?? new SparseGrams(grams, this.packing);
    this.grams.set(grams, made);
    return made;
  }
}

/**
 * Whether two levels have the same precisions.
 * @param {Level} one
 * @param {Level | undefined} other
 */
function isEqual(one, other) {
  return other !== undefined && one.precisions.every((value, i) => value === other.precisions[i]);
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
