/** Exact margins of sums of finest geounits, computed in a thread of their own. */

import { say } from "../parts/language.js";
import { CovarianceWorker, districtIntervals } from "../numerics/index.js";
import { finite } from "./area.js";

/** @typedef {import("./areas.js").Areas} Areas */
/** @typedef {import("./areas.js").Numbers} Numbers */
/** @typedef {import("./site.js").Site} Site */
/** @typedef {import("./site.js").Table} Table */

export class Margins {
  /** @type {Promise<CovarianceWorker> | null} */
  #worker = null;
  #areas;

  /** @param {Areas} areas */
  constructor(areas) {
    this.#areas = areas;
  }

  /**
   * Why the page cannot compute standard errors of sums; null if it can.
   * @param {Table} table
   * @returns {string | null}
   */
  why(table) {
    const { site } = this.#areas;
    if (!table.kinds.includes(site.finest)) return say("The site has no counts of the finest geounits for this table.");
    if (!site.intervals || !table.intervals) return site.no_intervals ?? say("This table has no intervals.");
    return site.district ? null : site.no_district ?? say("This site has no covariances.");
  }

  /**
   * Sums over finest geounits, with their standard errors and intervals.
   * @param {Int32Array} rows
   * @param {Table} table
   * @param {Int32Array | null} minus rows whose sum is taken off; null for none
   * @returns {Promise<Numbers>}
   */
  async sums(rows, table, minus = null) {
    const [added, taken] = await Promise.all([this.#sum(rows, table), minus ? this.#sum(minus, table) : null]);
    const numbers = taken ? differences(added, taken) : added;
    if (this.why(table) !== null) return numbers;
    const { file } = /** @type {{file: string}} */ (this.#areas.site.district);
    this.#worker ??= CovarianceWorker.open(file);
    const worker = await this.#worker;
    if (!worker.tables.includes(table.number)) return numbers;
    const variances = (await worker.districtVariances(rows, minus ?? undefined, [table.number]))[table.number];
    const estimates = numbers.estimate.map((estimate) => estimate ?? NaN);
    const level = /** @type {{level: number}} */ (this.#areas.site.intervals).level;
    const intervals = districtIntervals(estimates, variances, { level, gaussian: worker.gaussian, difference: minus !== null });
    return {
      ...numbers,
      error: Array.from(variances, (variance) => (Number.isFinite(variance) ? Math.sqrt(variance) : null)),
      low: intervals.map((ends) => finite(ends?.[0])),
      high: intervals.map((ends) => finite(ends?.[1])),
    };
  }

  /**
   * @param {Int32Array} rows
   * @param {Table} table
   * @returns {Promise<Numbers>}
   */
  async #sum(rows, table) {
    const { site } = this.#areas;
    const names = ["p", "e"].flatMap((letter) => table.answers.map((_, answer) => `${letter}${answer}`));
    const { chunk: size } = site.kinds[site.finest];
    /** @type {(number | null)[]} */
    const sums = names.map(() => 0);
    const parts = await Promise.all([...byChunk(rows, size)].map(async ([chunk, places]) =>
      /** @type {const} */ ([places, await this.#areas.columns(site.finest, chunk, table.number, names)])));
    for (const [places, columns] of parts) { // in order, so that the same district has the same sum to the last digit
      columns.forEach((column, which) => {
        for (const place of places) sums[which] = plus(sums[which], finite(column?.[place]));
      });
    }
    const none = table.answers.map(() => null);
    return { published: sums.slice(0, table.answers.length), estimate: sums.slice(table.answers.length), error: none, low: none, high: none };
  }
}

/**
 * @param {Int32Array} rows
 * @param {number} size
 * @returns {Map<number, number[]>}
 */
function byChunk(rows, size) {
  /** @type {Map<number, number[]>} */
  const chunks = new Map();
  for (const row of rows) {
    const chunk = Math.floor(row / size);
    const places = chunks.get(chunk);
    if (places) places.push(row % size);
    else chunks.set(chunk, [row % size]);
  }
  return chunks;
}

/**
 * @param {Numbers} one
 * @param {Numbers} other
 * @returns {Numbers}
 */
function differences(one, other) {
  const minus = (/** @type {(number | null)[]} */ left, /** @type {(number | null)[]} */ right) =>
    left.map((value, place) => plus(value, right[place] === null ? null : -right[place]));
  return { ...one, published: minus(one.published, other.published), estimate: minus(one.estimate, other.estimate) };
}

/**
 * @param {number | null} left
 * @param {number | null} right
 */
function plus(left, right) {
  return left === null || right === null ? null : left + right;
}
