/**
 * Exact variances of any district, for all tables of a release.
 *
 * Example, in a page:
 *
 *     import { TreeCovariance, districtIntervals } from "./numerics/index.js";
 *     const tree = await TreeCovariance.load("data/district.json");
 *     const variances = tree.districtVariances(Int32Array.of(17, 18, 40));   // rows of the site's finest kind
 *     const totals = variances[0];                                           // one variance for each answer of table 0
 *     const intervals = districtIntervals(estimates, totals, { level: 0.95, gaussian: tree.gaussian });
 *
 * A large state takes seconds. There, use `CovarianceWorker` (`worker_client.js`), which has the same questions and
 * answers them in another thread.
 */

import { Description } from "./description.js";
import { FitCovariance } from "./fit.js";
import { regionOf } from "./regions.js";

/** @typedef {import("./fit.js").Questions} Questions */
/** @typedef {{[table: number]: Float64Array}} TableVariances Variance of each answer, by number of the table. */

/** The covariances of a release. */
export class TreeCovariance {
  /**
   * @param {Description} description
   * @param {(FitCovariance | undefined)[]} [fits] Models that are made already.
   */
  constructor(description, fits) {
    this.description = description;
    this.parts = description.parts;
    /** Whether the noise is Gaussian; otherwise there are standard errors and no intervals. */
    this.gaussian = this.parts.gaussian;
    this.fits = fits ?? [];
    this.order = this.parts.order === null ? null : description.integers(this.parts.order);
    /** @type {Questions[]} */
    this.questions = [];
  }

  /**
   * Reads the description of a release.
   * @param {string | URL} address Of `district.json`.
   * @returns {Promise<TreeCovariance>}
   */
  static async load(address) {
    return new TreeCovariance(await Description.read(address));
  }

  /**
   * The covariances of a release whose files have been read.
   * @param {import("./description.js").DescriptionParts} parts Content of `district.json`.
   * @param {ArrayBuffer} buffer Content of `district.bin`.
   * @returns {TreeCovariance}
   */
  static from(parts, buffer) {
    return new TreeCovariance(new Description(parts, buffer));
  }

  /** Numbers of the tables that have variances. The others have a reason in `parts.tables[number].why`. */
  get tables() {
    return this.parts.tables.map((_, table) => table).filter((table) => this.parts.tables[table].fit !== null);
  }

  /**
   * The model of a table, after its pass up the tree.
   * @param {number} table
   * @returns {FitCovariance}
   */
  fitOf(table) {
    const number = this.parts.tables[table].fit;
    if (number === null) throw new Error(`table ${table} has no model: ${this.parts.tables[table].why}`);
    const fit = this.fits[number] ?? new FitCovariance(this.description.model(number));
    this.fits[number] = fit;
    return fit;
  }

  /**
   * The answers of a table.
   * @param {number} table
   * @returns {Questions}
   */
  questionsOf(table) {
    this.questions[table] ??= this.description.questions(table);
    return this.questions[table];
  }

  /**
   * Variances of every answer of a district, or of the difference of two; Infinity if an answer is not determined.
   * @param {Int32Array} rows Rows of the site's finest geounits, each once, in any order.
   * @param {Int32Array} [minus] Rows of the district that is subtracted.
   * @param {number[]} [tables] Numbers of the tables that are wanted; all if left out.
   * @returns {TableVariances}
   */
  districtVariances(rows, minus, tables = this.tables) {
    const region = regionOf(this.spineRows(rows), minus ? this.spineRows(minus) : null);
    /** @type {TableVariances} */
    const found = {};
    /** @type {Map<FitCovariance, import("./smoothing.js").Blocks>} */
    const known = new Map();
    for (const table of tables) {
      const fit = this.fitOf(table);
      const blocks = known.get(fit) ?? fit.regionBlocks(region);
      known.set(fit, blocks);
      found[table] = fit.variances(blocks, this.questionsOf(table));
    }
    return found;
  }

  /**
   * Variances of every answer of a table, for all geounits of a geolevel of the spine.
   * @param {number} table
   * @param {number} geolevel 0 for the root geolevel of the spine.
   * @returns {{rowOf: Int32Array, variances: Float64Array[]}} Row of each geounit; geounits of a row have the same
   *   variances, one for each answer. Geounits are in the order of the spine.
   */
  geolevelVariances(table, geolevel) {
    return this.fitOf(table).levelVariances(geolevel + 1, this.questionsOf(table));
  }

  /**
   * The precisions of the model of a table: 1 / variance of each measured query, level by level; the sum of all roots
   * first, where nothing is measured. A level whose geounits differ has one row of precisions after the other.
   * @param {number} table
   * @returns {{names: string[], precisions: Float64Array}[]}
   */
  precisionsOf(table) {
    const fit = this.fitOf(table);
    const { levels } = this.parts.fits[this.parts.tables[table].fit ?? 0];
    return fit.model.levels.map((level, i) => ({ names: levels[i].measured, precisions: level.precisions.slice() }));
  }

  /**
   * The same release with other precisions for the model of a table, and for all tables that share it.
   * @param {number} table
   * @param {Float64Array[]} precisions In the form of `precisionsOf`.
   * @returns {TreeCovariance}
   */
  withPrecisions(table, precisions) {
    const fits = [...this.fits];
    fits[this.parts.tables[table].fit ?? 0] = this.fitOf(table).withPrecisions(precisions);
    return new TreeCovariance(this.description, fits);
  }

  /**
   * Numbers of finest geounits in the spine.
   * @param {Int32Array} rows Rows of the site.
   * @returns {Int32Array}
   */
  spineRows(rows) {
    const { n_finest: n } = this.parts;
    if (rows.some((row) => !(row >= 0 && row < n)) || new Set(rows).size !== rows.length) {
      throw new RangeError(`a district names a row twice, or one outside 0 to ${n - 1}. Name each row of the finest kind once.`);
    }
    const { order } = this;
    return order === null ? rows : rows.map((row) => order[row]);
  }
}
