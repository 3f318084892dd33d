/**
 * Null spaces and pseudo-inverses of blocks that are built from projectors, by Jacobi's rotations.
 *
 * Problem. It must be decided which directions of a block are zero. The blocks are sums and products of projectors and
 * of queries divided by their traces. So their scale is known, and the decision never depends on a variance.
 *
 * Steps. Rotations of two columns at a time make all columns of a block orthogonal. They are accumulated in V. Then
 * the columns of A V are the singular values times the left singular vectors. For a positive semi-definite block the
 * singular values are its eigenvalues.
 *
 * Stopping rule. The sweeps end when every pair of columns is orthogonal to 15 digits, or after 60 sweeps.
 *
 * Worked case. The block (1 1; 1 1) becomes the columns (0, 0) and (1.41, 1.41) with one rotation by 45 degrees. Its
 * singular values are 0 and 2, and its null space is that of (1, -1).
 */

/** @typedef {import("./packing.js").Packing} Packing */

/** A singular value of blocks built from projectors is zero below this. */
export const RANK_TOLERANCE = 1e-8;
/** Entries of projectors below this are rounding errors of zero. */
const SPECK = 1e-12;
const ORTHOGONAL = 1e-15;
/** A product of two columns below this comes from rounding errors of a column that is zero. */
const NOTHING = 1e-22;
const MOST_SWEEPS = 60;

/**
 * Projectors without the small rounding errors where they should be zero. The array is changed.
 * @param {Float64Array} a
 * @returns {Float64Array}
 */
export function snapped(a) {
  for (let i = 0; i < a.length; i++) if (Math.abs(a[i]) < SPECK) a[i] = 0;
  return a;
}

/**
 * The projector on the null space of a positive semi-definite matrix that is built from projectors.
 * @param {Packing} packing
 * @param {Float64Array} a
 * @returns {Float64Array}
 */
export function nullProjector(packing, a) {
  return blockByBlock(packing, a, nullBlock);
}

/**
 * The Moore-Penrose inverse of a matrix that is built from projectors. Its scale is known, so the cutoff is absolute.
 * @param {Packing} packing
 * @param {Float64Array} a
 * @returns {Float64Array}
 */
export function pseudoInverse(packing, a) {
  return blockByBlock(packing, a, pseudoInverseBlock);
}

/**
 * @param {Packing} packing
 * @param {Float64Array} a
 * @param {(dim: number, block: Float64Array) => Float64Array} work
 * @returns {Float64Array}
 */
function blockByBlock(packing, a, work) {
  const out = packing.zeros();
  packing.dims.forEach((dim, k) => {
    const at = packing.begin[k];
    out.set(work(dim, a.slice(at, at + dim * dim)), at);
  });
  return out;
}

/** @type {(dim: number, block: Float64Array) => Float64Array} */
function nullBlock(dim, block) {
  const { turned, sizes } = orthogonalised(dim, block);
  const top = sizes.reduce((most, size) => Math.max(most, size), 1);
  const out = new Float64Array(dim * dim);
  sizes.forEach((size, m) => {
    if (size > RANK_TOLERANCE * top) return;
    for (let i = 0; i < dim; i++) {
      for (let j = 0; j < dim; j++) out[i * dim + j] += turned[m * dim + i] * turned[m * dim + j];
    }
  });
  return out;
}

/** @type {(dim: number, block: Float64Array) => Float64Array} */
function pseudoInverseBlock(dim, block) {
  const { columns, turned, sizes } = orthogonalised(dim, block);
  const out = new Float64Array(dim * dim);
  sizes.forEach((size, m) => {
    if (size <= RANK_TOLERANCE) return;
    for (let i = 0; i < dim; i++) {
      const left = turned[m * dim + i] / size / size;
      for (let j = 0; j < dim; j++) out[i * dim + j] += left * columns[m * dim + j];
    }
  });
  return out;
}

/**
 * Singular values of a block, its right singular vectors, and the columns that these give; both column after column.
 * @param {number} dim
 * @param {Float64Array} block
 */
function orthogonalised(dim, block) {
  const columns = new Float64Array(dim * dim);
  const turned = new Float64Array(dim * dim);
  for (let j = 0; j < dim; j++) {
    for (let i = 0; i < dim; i++) columns[j * dim + i] = block[i * dim + j];
    turned[j * dim + j] = 1;
  }
  for (let sweep = 0; sweep < MOST_SWEEPS; sweep++) {
    if (!rotateAll(dim, columns, turned)) break;
  }
  const sizes = new Float64Array(dim);
  for (let j = 0; j < dim; j++) sizes[j] = Math.sqrt(inner(dim, columns, j, j));
  return { columns, turned, sizes };
}

/**
 * One sweep over all pairs of columns; whether any pair was rotated.
 * @param {number} dim
 * @param {Float64Array} columns
 * @param {Float64Array} turned
 */
function rotateAll(dim, columns, turned) {
  let rotated = false;
  for (let p = 0; p < dim; p++) {
    for (let q = p + 1; q < dim; q++) {
      const [alpha, beta, gamma] = [inner(dim, columns, p, p), inner(dim, columns, q, q), inner(dim, columns, p, q)];
      if (Math.abs(gamma) <= Math.max(NOTHING, ORTHOGONAL * Math.sqrt(alpha * beta))) continue;
      rotated = true;
      const zeta = (beta - alpha) / (2 * gamma);
      const tangent = (zeta < 0 ? -1 : 1) / (Math.abs(zeta) + Math.sqrt(1 + zeta * zeta));
      const cosine = 1 / Math.sqrt(1 + tangent * tangent);
      rotate(dim, columns, p, q, cosine, cosine * tangent);
      rotate(dim, turned, p, q, cosine, cosine * tangent);
    }
  }
  return rotated;
}

/** @type {(dim: number, columns: Float64Array, p: number, q: number) => number} */
function inner(dim, columns, p, q) {
  let sum = 0;
  for (let i = 0; i < dim; i++) sum += columns[p * dim + i] * columns[q * dim + i];
  return sum;
}

/** @type {(dim: number, columns: Float64Array, p: number, q: number, cosine: number, sine: number) => void} */
function rotate(dim, columns, p, q, cosine, sine) {
  for (let i = 0; i < dim; i++) {
    const [one, other] = [columns[p * dim + i], columns[q * dim + i]];
    columns[p * dim + i] = cosine * one - sine * other;
    columns[q * dim + i] = sine * one + cosine * other;
  }
}
