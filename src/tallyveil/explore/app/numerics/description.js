/**
 * The description of a release's covariances: `district.json` and its numbers in `district.bin`.
 *
 * `district.json` names arrays. An array of the name N is `arrays[N] = [type, begin, length]`: `length` numbers of a
 * type (u1, u2, u4 or f8: unsigned integers of 1, 2 and 4 bytes, floats of 8), little-endian, from byte `begin` of
 * `district.bin` on. All that is in `fits` belongs to one model: of all tables, or of one table.
 *
 * `tallyveil.explore.district` writes both files.
 */

import { pattern } from "./directions.js";
import { Packing } from "./packing.js";

/** @typedef {import("./fit.js").Model} Model */
/** @typedef {import("./fit.js").Questions} Questions */
/** @typedef {Uint8Array | Uint16Array | Uint32Array | Float64Array} Numbers */

/**
 * @typedef {object} LevelPart
 * @property {string} name Name of the geolevel; empty for the sum of all roots.
 * @property {string[]} measured Names of the measured queries.
 * @property {number[]} queries For each, its row in the array `queries`.
 * @property {number | null} told Row of the invariants in the array `told`, or null.
 * @property {string} precisions Name of an array.
 * @property {string | null} precision_of Name of an array, or null.
 */

/**
 * @typedef {object} FitPart
 * @property {number[]} dims Size of the blocks of each class.
 * @property {string} queries @property {string} told @property {string} grams Names of arrays.
 * @property {LevelPart[]} levels The sum of all roots first.
 * @property {{signature: string, precision: string, zeros: string}} finest Names of arrays.
 */

/**
 * @typedef {object} TablePart
 * @property {string} name Name of the query.
 * @property {number | null} fit Number of the model; null if the table has none.
 * @property {string | null} gram_of Name of an array, or null.
 * @property {string | null} why Why the table has no model; null if it has one.
 */

/**
 * The content of `district.json`.
 * @typedef {object} DescriptionParts
 * @property {number} format
 * @property {boolean} gaussian Whether the noise is Gaussian; without Gaussian noise there are no intervals.
 * @property {number} n_finest
 * @property {string | null} order Name of an array: the spine's number of each finest geounit of the site; null if the
 *   numbers are the same.
 * @property {string[]} offsets Names of arrays: children of each level above the finest, the sum of all roots first.
 * @property {FitPart[]} fits
 * @property {TablePart[]} tables In the order of the site.
 * @property {{[name: string]: [string, number, number]}} arrays
 */

const FORMAT = 1;

/** The parsed description. */
export class Description {
  /**
   * @param {DescriptionParts} parts Content of `district.json`.
   * @param {ArrayBuffer} buffer Content of `district.bin`.
   */
  constructor(parts, buffer) {
    if (parts.format !== FORMAT) {
      throw new Error(
        `district.json has format ${parts.format}, and this page reads format ${FORMAT}. Make the site again.`,
      );
    }
    this.parts = parts;
    this.buffer = buffer;
    /** @type {Float64Array[]} */
    this.grams = [];
  }

  /**
   * Reads both files.
   * @param {string | URL} address Of `district.json`.
   * @returns {Promise<Description>}
   */
  static async read(address) {
    const [parts, buffer] = await Promise.all([
      fetched(address).then((response) => response.json()),
      fetched(`${address}`.replace(/\.json$/, ".bin")).then((response) => response.arrayBuffer()),
    ]);
    return new Description(parts, buffer);
  }

  /**
   * @param {string} name
   * @returns {Numbers}
   */
  array(name) {
    const [type, begin, length] = this.parts.arrays[name];
    switch (type) {
      case "u1":
        return new Uint8Array(this.buffer, begin, length);
      case "u2":
        return new Uint16Array(this.buffer, begin, length);
      case "u4":
        return new Uint32Array(this.buffer, begin, length);
      case "f8":
        return new Float64Array(this.buffer, begin, length);
      default:
        throw new Error(
          `district.json gives array ${name} the type ${type}; wanted u1, u2, u4 or f8. Make the site again.`,
        );
    }
  }

  /**
   * @param {string} name
   * @returns {Float64Array}
   */
  floats(name) {
    return Float64Array.from(this.array(name));
  }

  /**
   * @param {string} name
   * @returns {Int32Array}
   */
  integers(name) {
    return Int32Array.from(this.array(name));
  }

  /**
   * The rows of an array of packed matrices.
   * @param {string} name
   * @param {number} entries
   * @returns {Float64Array[]}
   */
  rows(name, entries) {
    const all = this.floats(name);
    return Array.from({ length: all.length / entries }, (_, i) => all.slice(i * entries, (i + 1) * entries));
  }

  /**
   * One model.
   * @param {number} fit
   * @returns {Model}
   */
  model(fit) {
    const own = this.parts.fits[fit];
    const packing = new Packing(own.dims);
    const queries = this.rows(own.queries, packing.entries);
    const told = this.rows(own.told, packing.entries);
    const levels = own.levels.map((level, number) => ({
      told: {
        level: number,
        patterns: level.queries.map((query) => pattern(packing, queries[query])),
        told: level.told === null ? null : told[level.told],
      },
      queries: level.queries.map((query) => queries[query]),
      precisions: this.floats(level.precisions),
      precisionOf: level.precision_of === null ? null : this.array(level.precision_of),
    }));
    const width = own.dims.reduce((sum, dim) => sum + dim, 0);
    const zeros = this.array(own.finest.zeros);
    const precision = this.array(own.finest.precision);
    const finest = {
      signature: this.integers(own.finest.signature),
      precision,
      zeros: Array.from(precision, (_, row) => zeros.subarray(row * width, (row + 1) * width)),
    };
    return { packing, offsets: this.parts.offsets.map((name) => this.integers(name)), levels, finest };
  }

  /**
   * The answers of a table that has a model.
   * @param {number} table
   * @returns {Questions}
   */
  questions(table) {
    const { fit, gram_of: gramOf, name, why } = this.parts.tables[table];
    if (fit === null || gramOf === null) throw new Error(`the table ${name} has no variances of districts: ${why}`);
    this.grams[fit] ??= this.floats(this.parts.fits[fit].grams);
    return { grams: this.grams[fit], gramOf: this.array(gramOf) };
  }
}

/**
 * @param {string | URL} address
 * @returns {Promise<Response>}
 */
async function fetched(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address} cannot be read (status ${response.status}). Make the site again.`);
  return response;
}
