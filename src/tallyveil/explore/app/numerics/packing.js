/**
 * Packed block-diagonal matrices: products, sums and identities.
 *
 * A covariance matrix of the cells of a geounit is block diagonal in the basis of `tallyveil.estimation.intervals.algebra`. Equal
 * blocks are stored once. The distinct blocks of one matrix are packed into a run of `entries` numbers, class after
 * class, each a matrix of `dims[k]` rows, row by row.
 *
 * Many matrices lie one after the other in one array. So every function takes an array and the place where the matrix
 * begins.
 */

/** How a block-diagonal matrix is packed into a run of numbers. */
export class Packing {
  /** @param {ArrayLike<number>} dims Size of the blocks of each class. */
  constructor(dims) {
    /** Size of the blocks of each class. */
    this.dims = Int32Array.from(dims);
    /** Where each class begins, and the end of the last one. */
    this.begin = new Int32Array(this.dims.length + 1);
    this.dims.forEach((dim, k) => {
      this.begin[k + 1] = this.begin[k] + dim * dim;
    });
    /** Number of entries of one matrix. */
    this.entries = this.begin[this.dims.length];
    /** Size of the largest block. */
    this.largest = this.dims.reduce((most, dim) => Math.max(most, dim), 0);
    /** Memory for one transposed block. */
    this.turned = new Float64Array(this.largest ** 2);
  }

  /** @returns {Float64Array} A matrix of zeros. */
  zeros() {
    return new Float64Array(this.entries);
  }

  /** @returns {Float64Array} The identity. */
  identity() {
    const out = this.zeros();
    this.dims.forEach((dim, k) => {
      for (let i = 0; i < dim; i++) out[this.begin[k] + i * (dim + 1)] = 1;
    });
    return out;
  }

  /**
   * The diagonal matrix of some numbers.
   * @param {ArrayLike<number>} diagonal One number for each row of each class.
   * @returns {Float64Array}
   */
  diagonal(diagonal) {
    const out = this.zeros();
    let place = 0;
    this.dims.forEach((dim, k) => {
      for (let i = 0; i < dim; i++) out[this.begin[k] + i * (dim + 1)] = diagonal[place++];
    });
    return out;
  }
}

/**
 * out += sign a b.
 * @param {Packing} packing
 * @param {Float64Array} a @param {number} aAt
 * @param {Float64Array} b @param {number} bAt
 * @param {number} sign
 * @param {Float64Array} out @param {number} outAt
 */
export function addProduct(packing, a, aAt, b, bAt, sign, out, outAt) {
  const { dims, begin } = packing;
  for (let k = 0; k < dims.length; k++) {
    addBlock(dims[k], a, aAt + begin[k], b, bAt + begin[k], sign, out, outAt + begin[k]);
  }
}

/**
 * out += sign a b', with b transposed.
 * @param {Packing} packing
 * @param {Float64Array} a @param {number} aAt
 * @param {Float64Array} b @param {number} bAt
 * @param {number} sign
 * @param {Float64Array} out @param {number} outAt
 */
export function addProductTransposed(packing, a, aAt, b, bAt, sign, out, outAt) {
  const { dims, begin, turned } = packing;
  for (let k = 0; k < dims.length; k++) {
    transposeBlock(dims[k], b, bAt + begin[k], turned, 0);
    addBlock(dims[k], a, aAt + begin[k], turned, 0, sign, out, outAt + begin[k]);
  }
}

/**
 * out += sign a b, for one block.
 * @param {number} dim
 * @param {Float64Array} a @param {number} aAt
 * @param {Float64Array} b @param {number} bAt
 * @param {number} sign
 * @param {Float64Array} out @param {number} outAt
 */
function addBlock(dim, a, aAt, b, bAt, sign, out, outAt) {
  for (let i = 0; i < dim; i++) {
    const row = outAt + i * dim;
    const leftRow = aAt + i * dim;
    for (let j = 0; j < dim; j++) {
      const left = sign * a[leftRow + j];
      if (left === 0) continue;
      const right = bAt + j * dim;
      for (let m = 0; m < dim; m++) out[row + m] += left * b[right + m];
    }
  }
}

/**
 * @param {number} dim
 * @param {Float64Array} a @param {number} aAt
 * @param {Float64Array} out @param {number} outAt
 */
function transposeBlock(dim, a, aAt, out, outAt) {
  for (let i = 0; i < dim; i++) for (let j = 0; j < dim; j++) out[outAt + j * dim + i] = a[aAt + i * dim + j];
}

/**
 * Each block transposed.
 * @param {Packing} packing
 * @param {Float64Array} a
 * @returns {Float64Array}
 */
export function transposed(packing, a) {
  const out = packing.zeros();
  packing.dims.forEach((dim, k) => transposeBlock(dim, a, packing.begin[k], out, packing.begin[k]));
  return out;
}

/**
 * out += factor a.
 * @param {number} entries
 * @param {number} factor
 * @param {Float64Array} a @param {number} aAt
 * @param {Float64Array} out @param {number} outAt
 */
export function addScaled(entries, factor, a, aAt, out, outAt) {
  for (let i = 0; i < entries; i++) out[outAt + i] += factor * a[aAt + i];
}

/**
 * The product of matrices from left to right.
 * @param {Packing} packing
 * @param {Float64Array} first
 * @param {...Float64Array} others
 * @returns {Float64Array}
 */
export function product(packing, first, ...others) {
  return others.reduce((made, factor) => {
    const out = packing.zeros();
    addProduct(packing, made, 0, factor, 0, 1, out, 0);
    return out;
  }, first);
}

/**
 * a - b - ..., entry by entry.
 * @param {Float64Array} first
 * @param {...Float64Array} others
 * @returns {Float64Array}
 */
export function minus(first, ...others) {
  const out = first.slice();
  for (const other of others) for (let i = 0; i < out.length; i++) out[i] -= other[i];
  return out;
}

/**
 * Replaces a matrix by its symmetric part, which removes asymmetry due to rounding.
 * @param {Packing} packing
 * @param {Float64Array} a @param {number} aAt
 */
export function symmetrise(packing, a, aAt) {
  packing.dims.forEach((dim, k) => {
    const at = aAt + packing.begin[k];
    for (let i = 0; i < dim; i++) {
      for (let j = 0; j < i; j++) {
        const mean = 0.5 * (a[at + i * dim + j] + a[at + j * dim + i]);
        a[at + i * dim + j] = mean;
        a[at + j * dim + i] = mean;
      }
    }
  });
}
