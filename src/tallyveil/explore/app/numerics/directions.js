/**
 * Which directions of a geounit's cells are known exactly, and about which nothing informs.
 *
 * Problem. Zeros and invariants tell some sums of cells exactly (projector Z). No measurement at or below a geounit
 * informs about some others (projector U). Wanted are Z and U of every geounit, without looking at any variance.
 *
 * Steps. What is known of a sum of children is what is known of each child: the intersection of their Z. What is
 * unknown of the sum is what is unknown of any child: the span of their U. Both depend only on which different Z and U
 * occur among the children. Then the geounit's invariants (the sum of their projectors T, with R = pinv(T) T) add to
 * Z, and its measured queries remove from U.
 *
 * Few different Z and U occur in a tree. So each is stored once and has a number, and each step is done once for each
 * combination of numbers.
 *
 * Worked case. One child is measured by cell, and its sibling has only a measured total, of two cells. Of their sum,
 * the difference of the two cells is unknown: U = ½ (1 -1; -1 1).
 */

import { minus, product } from "./packing.js";
import { nullProjector, pseudoInverse, snapped } from "./spectral.js";

/** @typedef {import("./packing.js").Packing} Packing */

/** The number that stands for no unknown direction. */
export const NONE = -1;
const SAME = 1e-9;
const GRID = 2 ** 20;

/**
 * What one geolevel tells, apart from precisions.
 * @typedef {object} Told
 * @property {number} level Number of the level.
 * @property {Float64Array[]} patterns Q'Q of each measured query, divided by its trace in each class.
 * @property {Float64Array | null} told Sum T of the projectors of the invariants.
 */

/**
 * Directions after a geounit's own measurements and invariants.
 * @typedef {object} After
 * @property {number} known
 * @property {number} unknown
 * @property {Float64Array} space The projector on what is neither known nor unknown.
 */

/** All projectors of one tree. */
export class Directions {
  /** @param {Packing} packing */
  constructor(packing) {
    this.packing = packing;
    this.eye = packing.identity();
    /** @type {Float64Array[]} */
    this.projectors = [];
    /** @type {Map<number, number[]>} */
    this.byHash = new Map();
    /** @type {Map<string, number>} */
    this.joined = new Map();
    /** @type {Map<string, Float64Array>} */
    this.spaces = new Map();
    /** @type {Map<string, After>} */
    this.told = new Map();
    const cells = packing.dims.reduce((sum, dim) => sum + dim, 0);
    this.least = 0.5 / cells;
  }

  /**
   * The number of a projector. Equal projectors have the same number.
   * @param {Float64Array} projector
   * @returns {number}
   */
  number(projector) {
    let hash = 0;
    for (let i = 0; i < projector.length; i++) {
      hash = (Math.imul(hash, 31) + Math.round(projector[i] * GRID)) | 0;
    }
    const alike = this.byHash.get(hash) ?? [];
    for (const candidate of alike) if (equal(this.projectors[candidate], projector)) return candidate;
    this.projectors.push(projector);
    this.byHash.set(hash, [...alike, this.projectors.length - 1]);
    return this.projectors.length - 1;
  }

  /**
   * The number of a projector, or NONE if it is zero.
   * @param {Float64Array} projector
   */
  numberIfAny(projector) {
    return projector.some((value) => Math.abs(value) > this.least) ? this.number(projector) : NONE;
  }

  /**
   * What is known of a sum of children.
   * @param {number[]} known The different Z of the children, increasing.
   * @returns {number}
   */
  knownOfSum(known) {
    if (known.length === 1) return known[0];
    return this.join(`known ${known}`, () => {
      const doubt = this.packing.zeros();
      for (const one of known) add(doubt, minus(this.eye, this.projectors[one]));
      return this.number(snapped(nullProjector(this.packing, doubt)));
    });
  }

  /**
   * What is unknown of a sum of children.
   * @param {number[]} unknown The different U of the children, increasing; NONE for a child with nothing unknown.
   * @returns {number}
   */
  unknownOfSum(unknown) {
    const some = unknown.filter((one) => one !== NONE);
    if (some.length <= 1) return some.length ? some[0] : NONE;
    return this.join(`unknown ${some}`, () => {
      const sum = this.packing.zeros();
      for (const one of some) add(sum, this.projectors[one]);
      return this.numberIfAny(snapped(minus(this.eye, nullProjector(this.packing, sum))));
    });
  }

  /**
   * The projector on what is neither known nor unknown.
   * @param {number} known
   * @param {number} unknown
   * @returns {Float64Array}
   */
  free(known, unknown) {
    const key = `${known},${unknown}`;
    const made = this.spaces.get(key);
    if (made) return made;
    const rest = minus(this.eye, this.projectors[known]);
    const space = snapped(unknown === NONE ? rest : minus(rest, this.projectors[unknown]));
    this.spaces.set(key, space);
    return space;
  }

  /**
   * Directions after a geounit's own measurements and invariants.
   * @param {Told} own What its geolevel tells.
   * @param {ArrayLike<number>} precisions Precision of each query; only whether it is 0 matters.
   * @param {number} known Z of the sum of the children.
   * @param {number} unknown U of the sum of the children.
   * @returns {After}
   */
  after(own, precisions, known, unknown) {
    const measured = own.patterns.map((_, query) => (precisions[query] > 0 ? 1 : 0));
    const key = `${own.level},${known},${unknown},${measured.join("")}`;
    const made = this.told.get(key);
    if (made) return made;
    const nowKnown = own.told ? this.pinned(own.told, known) : known;
    const informed = own.patterns.filter((_, query) => measured[query]);
    const nowUnknown = unknown === NONE ? NONE : this.stillUnknown(informed, nowKnown, unknown);
    const after = { known: nowKnown, unknown: nowUnknown, space: this.free(nowKnown, nowUnknown) };
    this.told.set(key, after);
    return after;
  }

  /**
   * Z with what invariants add.
   * @param {Float64Array} told @param {number} known
   * @returns {number}
   */
  pinned(told, known) {
    const certain = product(this.packing, pseudoInverse(this.packing, told), told);
    const fresh = product(this.packing, certain, minus(this.eye, this.projectors[known]));
    const added = product(this.packing, pseudoInverse(this.packing, fresh), fresh);
    add(added, this.projectors[known]);
    return this.number(snapped(added));
  }

  /**
   * The directions of U about which nothing informs.
   * @param {Float64Array[]} informed Patterns of the measured queries.
   * @param {number} known @param {number} unknown
   * @returns {number}
   */
  stillUnknown(informed, known, unknown) {
    const sum = minus(this.eye, this.projectors[unknown]);
    add(sum, this.projectors[known]);
    for (const pattern of informed) add(sum, pattern);
    return this.numberIfAny(snapped(nullProjector(this.packing, sum)));
  }

  /**
   * @param {string} key
   * @param {() => number} make
   * @returns {number}
   */
  join(key, make) {
    const made = this.joined.get(key);
    if (made !== undefined) return made;
    const fresh = make();
    this.joined.set(key, fresh);
    return fresh;
  }
}

/**
 * Each matrix of a query, divided by its trace in each class, for decisions about ranks.
 * @param {Packing} packing
 * @param {Float64Array} query
 * @returns {Float64Array}
 */
export function pattern(packing, query) {
  const out = query.slice();
  packing.dims.forEach((dim, k) => {
    const at = packing.begin[k];
    let trace = 0;
    for (let i = 0; i < dim; i++) trace += query[at + i * (dim + 1)];
    if (trace > 0) for (let i = 0; i < dim * dim; i++) out[at + i] /= trace;
  });
  return out;
}

/** @type {(one: Float64Array, other: Float64Array) => boolean} */
function equal(one, other) {
  return one.every((value, i) => Math.abs(value - other[i]) < SAME);
}

/** @type {(out: Float64Array, other: Float64Array) => void} */
function add(out, other) {
  for (let i = 0; i < out.length; i++) out[i] += other[i];
}
