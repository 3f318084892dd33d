/** Variances of the answers of a model's tables. Most entries of their Gram blocks are zero, and these are left out. */

/** @typedef {import("./packing.js").Packing} Packing */
/** @typedef {import("./smoothing.js").Blocks} Blocks */

/** A question with more than this fraction of its weight in unknown directions has no estimate. */
const UNKNOWN_SHARE = 1e-7;
/** A question with no more than this fraction of its weight outside the known directions is known exactly. */
const EXACT_SHARE = 1e-11;
/** A variance below this fraction of the sum of its terms' sizes is a rounding error of 0. */
const ROUNDING = 1e-13;

export class SparseGrams {
  /**
   * @param {Float64Array} grams  one packed matrix after the other
   * @param {Packing} packing
   */
  constructor(grams, packing) {
    const { entries } = packing, n = grams.length / entries;
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
    this.whole = this.products(packing.identity());
    /** @type {Map<Float64Array, boolean[]>} */
    this.exact = new Map();
  }

  /**
   * For each Gram block, whether the answer is known exactly, so that its variance is zero and not merely small.
   * @param {Float64Array} known  the projector on what is known of a geounit
   * @returns {boolean[]}
   */
  exactIn(known) {
    const made = this.exact.get(known);
    if (made) return made;
    const inside = this.products(known), fresh = Array.from(this.whole, (whole, gram) => whole - inside[gram] < EXACT_SHARE * whole);
    this.exact.set(known, fresh);
    return fresh;
  }

  /**
   * The variance of each Gram block; Infinity if the measurements do not determine the answer.
   * @param {Blocks} blocks  of a region or geounit
   * @param {Float64Array} [known]  the projector on what is known of the geounit; a region has none
   * @returns {Float64Array}
   */
  variances(blocks, known) {
    const found = this.products(blocks.covariance);
    if (known) {
      const exact = this.exactIn(known);
      for (let gram = 0; gram < found.length; gram++) found[gram] = exact[gram] ? 0 : Math.max(found[gram], 0);
    } else {
      for (let gram = 0; gram < found.length; gram++) found[gram] = this.positive(gram, found[gram], blocks.covariance);
    }
    if (!blocks.unknown) return found;
    const lost = this.products(blocks.unknown);
    return found.map((value, gram) => (lost[gram] > UNKNOWN_SHARE * this.whole[gram] ? Infinity : value));
  }

  /**
   * A product that cannot be negative: a variance. It is exactly 0 if only rounding errors of its terms are left.
   * @param {number} gram
   * @param {number} sum  the product
   * @param {Float64Array} matrix
   */
  positive(gram, sum, matrix) {
    if (sum > 1) return sum;
    let size = 0;
    for (let k = this.begin[gram]; k < this.begin[gram + 1]; k++) size += Math.abs(this.values[k] * matrix[this.places[k]]);
    return sum > ROUNDING * size ? sum : 0;
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
