/** Variances of the answers of a model's tables. Most entries of their Gram blocks are zero, and these are left out. */

/** @typedef {import("../numerics/fit.js").FitCovariance} FitCovariance */
/** @typedef {import("../numerics/smoothing.js").Blocks} Blocks */

/** A question with more than this fraction of its weight in unknown directions has no estimate. */
const UNKNOWN_SHARE = 1e-7;

export class SparseGrams {
  /**
   * @param {Float64Array} grams  one packed matrix after the other
   * @param {FitCovariance} fit
   */
  constructor(grams, fit) {
    const { entries } = fit.packing, n = grams.length / entries;
    this.begin = new Int32Array(n + 1);
    const places = [], values = [];
    for (let gram = 0; gram < n; gram++) {
      for (let i = 0; i < entries; i++) {
        const value = grams[gram * entries + i];
        if (value === 0) continue;
        places.push(i);
        values.push(value);
      }
      this.begin[gram + 1] = places.length;
    }
    this.places = Int32Array.from(places);
    this.values = Float64Array.from(values);
    this.whole = this.products(fit.directions.eye);
  }

  /**
   * The variance of each Gram block; Infinity if the measurements do not determine the answer.
   * @param {Blocks} blocks
   * @returns {Float64Array}
   */
  variances(blocks) {
    const found = this.products(blocks.covariance).map((value) => Math.max(value, 0));
    if (!blocks.unknown) return found;
    const lost = this.products(blocks.unknown);
    return found.map((value, gram) => (lost[gram] > UNKNOWN_SHARE * this.whole[gram] ? Infinity : value));
  }

  /**
   * @param {Float64Array} matrix
   * @returns {Float64Array}
   */
  products(matrix) {
    const { begin, places, values } = this, found = new Float64Array(begin.length - 1);
    for (let gram = 0; gram < found.length; gram++) {
      let sum = 0;
      for (let k = begin[gram]; k < begin[gram + 1]; k++) sum += values[k] * matrix[places[k]];
      found[gram] = sum;
    }
    return found;
  }
}
