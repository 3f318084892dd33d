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
import { SparseGrams } from "./sparse-grams.js";

/** @typedef {import("../numerics/fit.js").FitCovariance} FitCovariance */
/** @typedef {import("../numerics/smoothing.js").Blocks} Blocks */
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

export class Estimates {
  /**
   * @param {TreeCovariance} tree
   * @param {Variance[]} given  the noise of the plan as it was given
   */
  constructor(tree, given) {
    this.tree = tree;
    this.given = byPlace(given);
    this.tables = tree.tables;
    /** @type {Map<number, { key: string, fit: FitCovariance }>} */
    this.kept = new Map();
    /** @type {SparseGrams[]} */
    this.grams = [];
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
      const regular = children.length > 0 ? counts(children) : null;
      const made = this.fitUnder(table, this.precisions(table, now, regular));
      const own = this.tables.filter((one) => this.tree.parts.tables[one].fit === fit);
      const grams = this.gramsOf(table, made);
      const results = regular ? regularLevels(made, regular, grams)
        : levels.map((level) => geographyLevel(made, level, grams));
      const wanted = regular ? levels.map((level) => results[level]) : results;
      for (const one of own) {
        const gramOf = this.tree.questionsOf(one).gramOf;
        wanted.forEach((result, i) => summaries.push({ level: levels[i], table: one, ...summary(result, gramOf) }));
        if (area && "row" in area) {
          const result = wanted[levels.indexOf(area.level)], row = result.rowOf ? result.rowOf[area.row] : 0;
          chosen[one] = Float64Array.from(gramOf, (gram) => Math.sqrt(result.variances[row][gram]));
        }
        if (area && "members" in area) {
          const blocks = made.regionBlocks({ geounits: area.members, weights: new Float64Array(area.members.length).fill(1) });
          chosen[one] = made.variances(blocks, this.tree.questionsOf(one)).map(Math.sqrt);
        }
      }
    }
    summaries.sort((a, b) => a.level - b.level || a.table - b.table);
    return { summaries, chosen };
  }

  /**
   * The model of a table under other precisions. The last one is kept: several questions are asked about each plan.
   * @param {number} table
   * @param {Float64Array[]} precisions
   * @returns {FitCovariance}
   */
  fitUnder(table, precisions) {
    const key = precisions.map((level) => level.join()).join(";"), kept = this.kept.get(table);
    if (kept?.key === key) return kept.fit;
    const fit = this.tree.fitOf(table).withPrecisions(precisions);
    this.kept.set(table, { key, fit });
    return fit;
  }

  /**
   * The Gram blocks of a model's answers.
   * @param {number} table
   * @param {FitCovariance} fit
   * @returns {SparseGrams}
   */
  gramsOf(table, fit) {
    const number = this.tree.parts.tables[table].fit ?? 0;
    this.grams[number] ??= new SparseGrams(this.tree.questionsOf(table).grams, fit);
    return this.grams[number];
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
  return new Map(noise.map((one) => [`${one.geolevel}\n${one.query}`, one.variance]));
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
 * Smallest, median and largest standard deviation of all answers of all geounits.
 * @param {LevelResult} result
 * @param {ArrayLike<number>} gramOf
 */
function summary({ weights, variances }, gramOf) {
  /** @type {Map<number, number>} */
  const answers = new Map();
  for (let i = 0; i < gramOf.length; i++) answers.set(gramOf[i], (answers.get(gramOf[i]) ?? 0) + 1);
  const n = variances.length * answers.size, values = new Float64Array(n), numbers = new Float64Array(n);
  let place = 0, geounits = 0;
  variances.forEach((row, i) => {
    geounits += weights[i];
    for (const [gram, count] of answers) {
      values[place] = row[gram];
      numbers[place++] = weights[i] * count;
    }
  });
  const order = Uint32Array.from(values.keys()).sort((a, b) => values[a] - values[b]);
  let left = Math.floor((geounits * gramOf.length) / 2), at = 0;
  while (left >= numbers[order[at]]) left -= numbers[order[at++]];
  const [smallest, median, largest] = [order[0], order[at], order[n - 1]].map((i) => Math.sqrt(values[i]));
  return { n: geounits, smallest, median, largest };
}
