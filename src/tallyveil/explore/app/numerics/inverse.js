/**
 * The inverse of a symmetric matrix on a space, and zero outside it.
 *
 * Problem. A block A is positive definite on a space with projector R, and zero outside. Wanted is the matrix B with
 * A B = R and B = R B R.
 *
 * Steps. A + s (I - R) is positive definite on everything. Its inverse by Cholesky's factorisation, minus (I - R) / s,
 * is B. The number s is the mean eigenvalue of A on the space, so that both parts are of the same size.
 *
 * Worked case. A = diag(4, 0) and R = diag(1, 0): s = 4, A + s (I - R) = diag(4, 4), and B = diag(1/4, 0).
 */

/** @typedef {import("./packing.js").Packing} Packing */

/** Inverts matrices of one packing. It has memory of its own for single blocks. */
export class Inverter {
  /** @param {Packing} packing */
  constructor(packing) {
    this.packing = packing;
    this.factor = new Float64Array(packing.largest ** 2);
    this.inverse = new Float64Array(packing.largest ** 2);
  }

  /**
   * Writes the inverse of a matrix on a space.
   * @param {Float64Array} a The matrix. It is zero outside the space. @param {number} aAt
   * @param {Float64Array} space The projector on the space.
   * @param {Float64Array} out @param {number} outAt
   */
  within(a, aAt, space, out, outAt) {
    this.packing.dims.forEach((dim, k) => {
      const at = this.packing.begin[k];
      this.block(dim, a, aAt + at, space, at, out, outAt + at);
    });
  }

  /**
   * One block of `within`.
   * @param {number} dim
   * @param {Float64Array} a @param {number} aAt
   * @param {Float64Array} space @param {number} spaceAt
   * @param {Float64Array} out @param {number} outAt
   */
  block(dim, a, aAt, space, spaceAt, out, outAt) {
    let rank = 0;
    let size = 0;
    for (let i = 0; i < dim; i++) {
      rank += space[spaceAt + i * (dim + 1)];
      size += a[aAt + i * (dim + 1)];
    }
    if (!(rank > 0.5 && size > 0)) {
      // Ranks are whole numbers.
      out.fill(0, outAt, outAt + dim * dim);
      return;
    }
    const scale = size / Math.max(rank, 1);
    for (let i = 0; i < dim * dim; i++) this.factor[i] = a[aAt + i] - scale * space[spaceAt + i];
    for (let i = 0; i < dim; i++) this.factor[i * (dim + 1)] += scale;
    this.invertFactor(dim);
    for (let i = 0; i < dim * dim; i++) out[outAt + i] = this.inverse[i] + space[spaceAt + i] / scale;
    for (let i = 0; i < dim; i++) out[outAt + i * (dim + 1)] -= 1 / scale;
    clearOutside(dim, space, spaceAt, out, outAt);
  }

  /**
   * Writes into `inverse` the inverse of the positive definite matrix in `factor`, which is overwritten.
   * @param {number} dim
   */
  invertFactor(dim) {
    const { factor, inverse } = this;
    factorise(dim, factor);
    invertTriangle(dim, factor);
    for (let i = 0; i < dim; i++) {
      for (let j = 0; j <= i; j++) {
        let sum = 0;
        for (let m = i; m < dim; m++) sum += factor[m * dim + i] * factor[m * dim + j];
        inverse[i * dim + j] = sum;
        inverse[j * dim + i] = sum;
      }
    }
  }
}

/**
 * Replaces the lower triangle of a positive definite matrix by its Cholesky factor.
 * @param {number} dim
 * @param {Float64Array} a
 */
function factorise(dim, a) {
  for (let j = 0; j < dim; j++) {
    for (let i = j; i < dim; i++) {
      let sum = a[i * dim + j];
      for (let m = 0; m < j; m++) sum -= a[i * dim + m] * a[j * dim + m];
      if (i > j) {
        a[i * dim + j] = sum / a[j * dim + j];
      } else if (sum > 0) {
        a[j * dim + j] = Math.sqrt(sum);
      } else {
        throw new Error(
          `row ${j} of a block of size ${dim} depends on the rows before it. The precisions of the plan differ by so ` +
            "many orders of magnitude that they cannot be told from 0. Make them more alike.",
        );
      }
    }
  }
}

/**
 * Replaces a lower triangle by its inverse.
 * @param {number} dim
 * @param {Float64Array} a
 */
function invertTriangle(dim, a) {
  for (let j = 0; j < dim; j++) {
    a[j * dim + j] = 1 / a[j * dim + j];
    for (let i = j + 1; i < dim; i++) {
      let sum = 0;
      for (let m = j; m < i; m++) sum -= a[i * dim + m] * a[m * dim + j];
      a[i * dim + j] = sum / a[i * dim + i];
    }
  }
}

/**
 * Makes rows and columns exactly zero that the space leaves out. If a zero determines a coefficient outright, its row
 * must be exactly zero and not merely small.
 * @param {number} dim
 * @param {Float64Array} space @param {number} spaceAt
 * @param {Float64Array} out @param {number} outAt
 */
function clearOutside(dim, space, spaceAt, out, outAt) {
  for (let i = 0; i < dim; i++) {
    if (space[spaceAt + i * (dim + 1)] !== 0) continue;
    for (let j = 0; j < dim; j++) {
      out[outAt + i * dim + j] = 0;
      out[outAt + j * dim + i] = 0;
    }
  }
}
