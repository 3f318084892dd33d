/**
 * Exact standard deviations of the least-squares estimates of every geolevel, for any shares of the plan.
 *
 * `numerics` computes the covariances of a spine from the precision of each measured query. A change of a share only
 * changes precisions: each is its value in the given plan, times the given variance, divided by the new one.
 *
 * Regular spines. Every geounit of a geolevel has the same number of children, so all geounits of a geolevel have the
 * same covariances, and only one of each is computed. Problem: the pass up the tree adds up n equal children with the
 * covariance P, S = n P. Let M be the number of geounits of a geolevel. Then M P follows the same pass in a tree with
 * one child everywhere, if the precisions of each geolevel are divided by its M. So the tree has one geounit at each
 * geolevel. The pass down: a child's error, given its parent, is P - P / n, and it has the part V' / n^2 of the parent's
 * error V'. So V = P (1 - 1 / n) + V' / n^2.
 *
 * Worked case: a parent and two children are measured with variance 1, and there is one cell. P = 1 for a child and 2/3
 * for the parent. V = 1 / 2 + (2/3) / 4 = 2/3.
 */

import { TreeCovariance } from "../numerics/index.js";
import { scaled, statistics } from "./statistics.js";

/** @typedef {import("../numerics/fit.js").FitCovariance} FitCovariance */
/** @typedef {import("../numerics/sparse_grams.js").SparseGrams} SparseGrams */
/** @typedef {{ geolevel: string, query: string, variance: number }} Variance */
/** @typedef {{ level: number } & ({ row: number } | { members: Int32Array }) } Area */

/**
 * Standard deviations of one query over the geounits of a geolevel; Infinity if the measurements determine no answer.
 * @typedef {object} Summary
 * @property {number} level  number of the geolevel
 * @property {number} table  number of the query
 * @property {number} n  number of geounits
 * @property {number} smallest
 * @property {number} median
 * @property {number} largest
 */

/**
 * The covariances of one geolevel.
 * @typedef {object} LevelResult
 * @property {Float64Array} weights  number of geounits that share a row
 * @property {Float64Array[]} variances  of each row, one for each Gram block of the model
 * @property {ArrayLike<number> | null} rowOf  row of each geounit; null if there is one row
 */

/**
 * A model under the noise that was asked about last, and what is known of it.
 * @typedef {object} Kept
 * @property {string} children  of the regular spine
 * @property {Float64Array[]} precisions
 * @property {FitCovariance} fit
 * @property {LevelResult[]} levels  by number of the geolevel; those that were not wanted are missing
 * @property {Map<string, Statistics>} statistics  by numbers of geolevel and query
 */

/** @typedef {import("./statistics.js").Statistics} Statistics */

/** The least variance that a model takes noise to have, as `LEAST_VARIANCE` in Python. */
const LEAST_VARIANCE = 2 ** -30;

/** Two noises are the same but for one factor if their precisions are in the same ratio to this relative difference. */
const ALIKE = 1e-13;

export class Estimates {
  /**
   * @param {TreeCovariance} tree
   * @param {Variance[]} given  the noise of the plan as it was given
   */
  constructor(tree, given) {
    this.tree = tree;
    this.given = byPlace(given);
    this.tables = tree.tables;
    /** @type {Map<number, Kept>} */
    this.kept = new Map();
    this.byFit = new Map(this.tables.map((table) => [tree.parts.tables[table].fit, table]));
  }

  /**
   * @param {string} address  of `district.json`
   * @param {Variance[]} given
   */
  static async load(address, given) {
    return new Estimates(await TreeCovariance.load(address), given);
  }

  /**
   * The standard deviations under other noise.
   * @param {Variance[]} noise
   * @param {number[]} children  numbers of children of a regular spine, root first; empty for the geography's spine
   * @param {number[]} levels  geolevels that are wanted
   * @param {Area | null} area
   * @returns {{ summaries: Summary[], chosen: Record<number, Float64Array> }}
   */
  compute(noise, children, levels, area) {
    const now = byPlace(noise);
    /** @type {Summary[]} */
    const summaries = [];
    /** @type {Record<number, Float64Array>} */
    const chosen = {};
    for (const [fit, table] of this.byFit) {
      const { kept, factor } = this.modelUnder(table, now, children), root = Math.sqrt(factor);
      for (const one of this.tables.filter((each) => this.tree.parts.tables[each].fit === fit)) {
        const questions = this.tree.questionsOf(one);
        for (const level of levels) summaries.push({ level, table: one, ...scaled(this.statisticsOf(kept, level, one), root) });
        if (area && "row" in area) {
          const { rowOf, variances } = this.levelOf(kept, area.level, one), row = rowOf ? rowOf[area.row] : 0;
          chosen[one] = Float64Array.from(questions.gramOf, (gram) => root * Math.sqrt(variances[row][gram]));
        }
        if (area && "members" in area) {
          const blocks = kept.fit.regionBlocks({ geounits: area.members, weights: new Float64Array(area.members.length).fill(1) });
          chosen[one] = kept.fit.variances(blocks, questions).map((value) => root * Math.sqrt(value));
        }
      }
    }
    summaries.sort((a, b) => a.level - b.level || a.table - b.table);
    return { summaries, chosen };
  }

  /**
   * The model of a table under other noise. The last one is kept: several questions are asked about each plan. If all
   * noise has changed by one factor, so have all variances, and the last model still serves.
   * @param {number} table
   * @param {Map<string, number>} now
   * @param {number[]} children
   * @returns {{ kept: Kept, factor: number }} the model, and the factor of its variances
   */
  modelUnder(table, now, children) {
    const precisions = this.precisions(table, now, children.length ? counts(children) : null), before = this.kept.get(table);
    const factor = before && before.children === children.join() ? ratio(before.precisions, precisions) : null;
    if (before && factor !== null) return { kept: before, factor };
    const fit = (before?.fit ?? this.tree.fitOf(table)).withPrecisions(precisions);
    const kept = { children: children.join(), precisions, fit, levels: [], statistics: new Map() };
    this.kept.set(table, kept);
    return { kept, factor: 1 };
  }

  /**
   * @param {Kept} kept
   * @param {number} level
   * @param {number} table  of the model
   * @returns {LevelResult}
   */
  levelOf(kept, level, table) {
    const grams = kept.fit.gramsOf(this.tree.questionsOf(table));
    if (kept.children && !kept.levels.length) kept.levels = regularLevels(kept.fit, counts(kept.children.split(",").map(Number)), grams);
    kept.levels[level] ??= geographyLevel(kept.fit, level, grams);
    return kept.levels[level];
  }

  /**
   * @param {Kept} kept
   * @param {number} level
   * @param {number} table
   * @returns {Statistics}
   */
  statisticsOf(kept, level, table) {
    const key = `${level},${table}`, found = kept.statistics.get(key) ?? statistics(this.levelOf(kept, level, table), this.tree.questionsOf(table).gramOf);
    kept.statistics.set(key, found);
    return found;
  }

  /**
   * The precisions of a model under other noise.
   * @param {number} table
   * @param {Map<string, number>} now
   * @param {number[] | null} geounits  numbers of geounits of a regular spine
   * @returns {Float64Array[]}
   */
  precisions(table, now, geounits) {
    const levels = this.tree.parts.fits[this.tree.parts.tables[table].fit ?? 0].levels;
    return this.tree.precisionsOf(table).map(({ names, precisions }, i) => {
      const factors = names.map((name) => {
        const place = `${levels[i].name}\n${this.given.has(`${levels[i].name}\n${name}`) ? name : name.replace(/ \/ \d+$/, "")}`;
        const before = this.given.get(place), after = now.get(place);
        if (before === undefined || after === undefined) throw new Error(`the noise of ${place} is not in the plan.`);
        return before / after / (geounits && i > 0 ? geounits[i - 1] : 1);
      });
      return precisions.map((value, k) => value * factors[k % names.length]);
    });
  }
}

/**
 * Number of geounits of each geolevel of a regular spine.
 * @param {number[]} children
 */
export function counts(children) {
  return children.reduce((found, n) => [...found, found[found.length - 1] * n], [1]);
}

/** @param {Variance[]} noise */
function byPlace(noise) {
  return new Map(noise.map((one) => [`${one.geolevel}\n${one.query}`, Math.max(one.variance, LEAST_VARIANCE)]));
}

/**
 * @param {FitCovariance} fit
 * @param {number} level
 * @param {SparseGrams} grams
 * @returns {LevelResult}
 */
function geographyLevel(fit, level, grams) {
  /** @type {Float64Array[]} */
  const variances = [];
  const { rowOf, filtered } = fit.smoother.rows(level + 1), { known } = fit.levels[level + 1];
  fit.smoother.each(level + 1, (row, blocks) => {
    variances[row] = grams.variances(blocks, fit.directions.projectors[known[filtered[row]]]);
  });
  const weights = new Float64Array(variances.length);
  for (const row of rowOf) weights[row] += 1;
  return { weights, variances, rowOf };
}

/**
 * @param {FitCovariance} fit  of a tree with one geounit at each geolevel and scaled precisions
 * @param {number[]} geounits  number of geounits of each geolevel
 * @param {SparseGrams} grams
 * @returns {LevelResult[]}
 */
function regularLevels(fit, geounits, grams) {
  let above = fit.levels[0].covariance, lasting = fit.projector(fit.levels[0].unknown[0]);
  return geounits.map((n, level) => {
    const children = level === 0 ? 1 : n / geounits[level - 1], filtered = fit.levels[level + 1].covariance;
    const outer = above;
    above = filtered.map((value, i) => (value / n) * (1 - 1 / children) + outer[i] / children ** 2);
    if (children > 1) lasting = fit.projector(fit.levels[level + 1].unknown[0]);
    const known = fit.directions.projectors[fit.levels[level + 1].known[0]];
    const variances = grams.variances({ covariance: above, unknown: lasting }, known);
    return { weights: Float64Array.of(n), variances: [variances], rowOf: null };
  });
}

/**
 * The factor from the variances of one noise to those of another, or null if there is no such factor.
 * @param {Float64Array[]} before  precisions
 * @param {Float64Array[]} now
 */
function ratio(before, now) {
  /** @type {number | null} */
  let factor = null;
  for (const [i, level] of before.entries()) {
    for (const [k, value] of level.entries()) {
      if (value === 0 && now[i][k] === 0) continue;
      factor ??= value / now[i][k];
      if (!(Math.abs(value - factor * now[i][k]) <= ALIKE * value)) return null;
    }
  }
  return factor;
}
