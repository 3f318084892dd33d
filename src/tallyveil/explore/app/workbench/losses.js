/**
 * The privacy losses of discrete Gaussian answers, and their transform at the nodes of a trapezoid rule.
 *
 * Problem. delta(epsilon) = E max(0, 1 - exp(epsilon - L)) is wanted for the sum L of the losses of many answers. Each
 * answer has a variance v and moves by one. The page needs an upper bound of delta that is close to it.
 *
 * Variables. h is half the width of a dither, a sum of p uniform variables, which is added to L. V is the sum of m / v
 * over all answers, where m answers have the variance v. z = s + iu has the tilt s and the frequency u. d is the distance
 * of u from the nearest multiple of 2 pi v.
 *
 * Steps. The dithered delta at epsilon - h^2 / (6 p) is not below delta. It is a sum over nodes u of the transform of L.
 * The nodes at which the transform is negligible are left out, with a bound on all of them together. This is the upper
 * half of `tallyveil.accounting.engines.dithered`, and every formula is proved in docs/proofs/off-lattice.md.
 *
 * Finding the nodes. F(u) = sum of a d^2 / 2, with a slightly below m / v, bounds minus the logarithm of the transform.
 * The square root of F is the length of a vector whose entries change at most as fast as u. So if it is above the limit
 * by x, no u nearer than x / sqrt(sum of a / 2) needs to be looked at.
 *
 * Stopping rule. The transform of the dither falls as (p / (h u))^p. The search ends where that alone is negligible.
 */

const UNIT = 2 ** -53;
export const PARTS = 12;
const LEAST_VARIANCE = 0.25;
const LARGEST_LOG_NORM = 5;
const NEGLIGIBLE_IMAGE = 60;
/** Most factors times frequencies that one search may look at, and most that it may keep. */
const MOST_LOOKS = 1e7, MOST_KEPT = 5e5;

/**
 * @typedef {object} Losses
 * @property {Float64Array} variances  distinct variances v
 * @property {Float64Array} powers  number of answers m of each variance
 * @property {number} total  V, which is twice rho
 * @property {number} logNorm  ln C, the sum of m ln c_v
 */

/**
 * @typedef {object} Depth
 * @property {number} half  h
 * @property {number} depth  T, the logarithm of what is left out in the first segment
 */

/**
 * @typedef {object} Contour
 * @property {number} tilt  s
 * @property {number} half  h
 * @property {number} total  V
 * @property {number} logNorm  ln C
 * @property {Float64Array} frequencies  u at the nodes that are kept
 * @property {Float64Array} real  terms of the rule without the phase of epsilon
 * @property {Float64Array} imaginary
 * @property {number} error  bound on everything that is left out and rounded
 * @property {number} growth  its growth with the distance of epsilon from V / 2
 */

/**
 * The losses of answers, or null where this method does not take them: a variance is below 1/4, or there are too many
 * small variances.
 * @param {{ variance: number, answers: number }[]} answers  variance of the noise, and number of answers that move
 * @returns {Losses | null}
 */
export function lossesOf(answers) {
  /** @type {Map<number, number>} */
  const merged = new Map();
  for (const { variance, answers: n } of answers) merged.set(variance, (merged.get(variance) ?? 0) + n);
  const variances = Float64Array.from(merged.keys()), powers = Float64Array.from(merged.values());
  let total = 0, logNorm = 0;
  for (let i = 0; i < variances.length; i++) {
    total += powers[i] / variances[i];
    logNorm += powers[i] * Math.log(theta(variances[i]));
  }
  const refused = variances.some((v) => v < LEAST_VARIANCE) || !(logNorm <= LARGEST_LOG_NORM) || !(total > 0);
  return refused ? null : { variances, powers, total, logNorm: logNorm * (1 + 1e-12) };
}

/**
 * h and T for a width of epsilon's bound.
 * @param {Losses} losses
 * @param {number} width
 * @returns {Depth}
 */
export function depthFor(losses, width) {
  const spread = Math.sqrt(losses.total), tilt = 7.5 / spread, aim = width * Math.min(1, spread);
  return {
    half: Math.sqrt((0.9 * aim) / (1 + (tilt + 2) / (2 * PARTS))),
    depth: Math.log((1000 * (tilt + 1) * spread) / aim) + losses.logNorm,
  };
}

/**
 * The rule for one tilt, or null if too many frequencies would have to be looked at.
 * @param {Losses} losses
 * @param {Depth} depth
 * @param {number} tilt  s, above 0
 * @param {number} epsilon  about where delta is wanted
 * @returns {Contour | null}
 */
export function contourAt(losses, depth, tilt, epsilon) {
  const step = (2 * Math.PI) / period(losses, tilt, epsilon);
  const nodes = findNodes(losses, depth, step);
  if (!nodes) return null;
  const { frequencies, first, segments, end } = nodes, n = frequencies.length;
  const real = new Float64Array(n), imaginary = new Float64Array(n);
  let error = leftOut(losses, depth, tilt, step, first, segments, end), growth = 0;
  const part = { re: 0, im: 0, size: 0, error: 0 };
  for (let k = 0; k < n; k++) {
    const u = frequencies[k];
    gaussianPart(losses, tilt, u, part);
    const dither = ditherAt(tilt, u, depth.half);
    // (u == 0 ? 1 : 2) * step / (2 pi) / (z (z + 1)) with z (z + 1) = s (s + 1) - u^2 + i u (2 s + 1)
    const a = tilt * (tilt + 1) - u * u, b = u * (2 * tilt + 1), norm = a * a + b * b;
    const weight = ((u === 0 ? 1 : 2) * step) / (2 * Math.PI) / norm;
    const flatRe = weight * a, flatIm = -weight * b;
    const re = part.re * dither.re - part.im * dither.im, im = part.re * dither.im + part.im * dither.re;
    real[k] = re * flatRe - im * flatIm;
    imaginary[k] = re * flatIm + im * flatRe;
    const rough = part.size * Math.hypot(flatRe, flatIm) * 1.001;
    const relative = Math.expm1(Math.min(1.01 * UNIT * part.error, 700));
    error += 1.01 * rough * (relative * dither.size + 1.01 * UNIT * (dither.error + n * dither.size));
    growth += 1.01 * UNIT * 8 * rough * dither.size * u;
  }
  return {
    tilt, half: depth.half, total: losses.total, logNorm: losses.logNorm,
    frequencies, real, imaginary, error, growth,
  };
}

/**
 * The sum of exp(-2 pi^2 v n^2) over all whole numbers n.
 * @param {number} variance
 */
function theta(variance) {
  let sum = 1;
  for (let n = 1; n < 20; n++) sum += 2 * Math.exp(-2 * Math.PI ** 2 * variance * n * n);
  return sum;
}

/**
 * A period of the rule that makes its wrap-around small. Wrap-around only raises the bound.
 * @param {Losses} losses
 * @param {number} tilt
 * @param {number} epsilon
 */
function period(losses, tilt, epsilon) {
  const spread = Math.sqrt(losses.total);
  const logValue = ((tilt + tilt * tilt) * losses.total) / 2 - tilt * epsilon
    - Math.log(tilt * (tilt + 1) * Math.sqrt(2 * Math.PI) * spread);
  return 1.3 * Math.max(Math.sqrt(80) * spread, (40 + Math.max(-logValue, 0)) / tilt);
}

/**
 * The nodes at which the transform is not negligible.
 * @param {Losses} losses
 * @param {Depth} depth
 * @param {number} step  distance of the nodes
 * @returns {{ frequencies: Float64Array, first: number, segments: number, end: number } | null}
 */
function findNodes(losses, depth, step) {
  const { variances, powers } = losses, count = variances.length;
  const rates = variances.map((v, i) => (powers[i] * (1 - (2 * Math.LN2) / (Math.PI ** 2 * v))) / v);
  const periods = variances.map((v) => 2 * Math.PI * v);
  const sum = rates.reduce((one, other) => one + other, 0);
  const slack = variances.reduce((one, v, i) => one + powers[i] * Math.exp(4 - 2 * Math.PI ** 2 * v), 0);
  const first = 8 / Math.sqrt(losses.total), slope = Math.sqrt(sum / 2) * step;
  /** @type {number[]} */
  const found = [];
  let begin = 0, end = first, segments = 0, looks = 0, node = 0;
  for (;;) {
    const limit = begin === 0 ? depth.depth : limitAt(depth, begin);
    if (begin > 0 && limit <= 0) break;
    const moved = (8 * count + 32) * UNIT * end;
    const root = (Math.sqrt(limit + slack) + moved * Math.sqrt(8 * sum)) * (1 + 1e-9) + 1e-9;
    for (; node * step <= end; looks += count) {
      const u = node * step;
      let twice = 0;
      for (let i = 0; i < count; i++) {
        const d = u - Math.floor(u / periods[i] + 0.5) * periods[i];
        twice += rates[i] * d * d;
      }
      const over = Math.sqrt(twice / 2) - root;
      if (over <= 0) found.push(u);
      node += over <= 0 ? 1 : Math.max(1, Math.floor((over / slope) * (1 - 1e-9)));
    }
    if (looks > MOST_LOOKS || found.length * count > MOST_KEPT) return null;
    if (begin > 0) segments += 1;
    begin = end;
    end *= 2;
  }
  if (192 * UNIT * begin > Math.min(...periods)) return null;
  return { frequencies: Float64Array.from(found), first, segments, end: begin };
}

/**
 * t(b): the limit of F in the segment that begins at b.
 * @param {Depth} depth
 * @param {number} begin
 */
function limitAt(depth, begin) {
  return depth.depth - Math.log(begin) - PARTS * Math.max(0, Math.log((depth.half * begin) / PARTS));
}

/**
 * Bound on the sum over the nodes that are left out (off-lattice.md, section 4).
 * @param {Losses} losses
 * @param {Depth} depth
 * @param {number} tilt
 * @param {number} step
 * @param {number} first
 * @param {number} segments
 * @param {number} end
 */
function leftOut(losses, depth, tilt, step, first, segments, end) {
  const size = Math.exp(tilt * depth.half + losses.logNorm) / Math.PI;
  const inner = Math.PI / (2 * tilt) + step / tilt ** 2, later = (segments * first) / (first - step), last = end - step;
  const beyond = PARTS * Math.log(PARTS / (depth.half * last)) - Math.log(last * (PARTS + 1));
  return 1.001 * size * (Math.exp(-depth.depth) * (inner + later) + Math.exp(beyond));
}

/**
 * The product of the transforms, times C exp(-(s + s^2) V / 2) and without the phase of the centre; a bound on its
 * modulus; and a bound on its relative error in UNIT.
 * @param {Losses} losses
 * @param {number} s
 * @param {number} u
 * @param {{ re: number, im: number, size: number, error: number }} part  is filled
 */
function gaussianPart(losses, s, u, part) {
  const { variances, powers } = losses, count = variances.length;
  let decay = 0, pull = 0, phase = 0, re = 1, im = 0, more = 0, error = 0;
  for (let i = 0; i < count; i++) {
    const v = variances[i], m = powers[i], lap = 2 * Math.PI * v;
    const d = u - Math.floor(u / lap + 0.5) * lap, weight = m / v;
    decay += (weight / 2) * d * d;
    pull += weight * Math.abs(d);
    phase += weight * s * d;
    if (2 * Math.PI * (Math.PI * v - Math.abs(d)) >= NEGLIGIBLE_IMAGE + Math.log(m)) continue;
    let imageRe = 0, imageIm = 0, sizes = 0, rough = 0;
    for (let n = -3; n <= 3; n++) {
      if (n === 0) continue;
      const size = Math.exp(-2 * Math.PI * n * (Math.PI * v * n - d)), turn = n * s, angle = -2 * Math.PI * (turn - Math.round(turn));
      imageRe += size * Math.cos(angle);
      imageIm += size * Math.sin(angle);
      sizes += size;
      rough += size * (80 * Math.abs(n) * u + 50 * Math.abs(n) * (Math.PI * v * Math.abs(n) + Math.abs(d)) + 80 + 8 * Math.abs(turn));
    }
    for (let k = 0; k < m; k++) [re, im] = [re + re * imageRe - im * imageIm, im + re * imageIm + im * imageRe];
    more += m * Math.log1p(sizes);
    error += m * (rough + 16 * (Math.log2(m) + 3) * sizes + 1e-8) + 10 * m;
  }
  const turns = phase / (2 * Math.PI), angle = 2 * Math.PI * (turns - Math.round(turns)), height = Math.exp(-decay);
  const cos = Math.cos(angle) * height, sin = Math.sin(angle) * height, V = losses.total;
  part.re = re * cos - im * sin;
  part.im = re * sin + im * cos;
  part.size = Math.exp(more - decay);
  part.error = error + 12 * u * pull + (8 + 2 * count) * decay + (13 * s + 72 * UNIT * u) * V * u
    + (12 + count) * s * pull + 300 + count;
}

/**
 * The transform of the dither, (sinh(z h / p) / (z h / p))^p, a bound on its modulus, and its error in UNIT.
 * @param {number} s
 * @param {number} u
 * @param {number} half
 */
function ditherAt(s, u, half) {
  const a = (s * half) / PARTS, b = (u * half) / PARTS;
  const sinh = (Math.expm1(a) - Math.expm1(-a)) / 2, cosh = (Math.exp(a) + Math.exp(-a)) / 2;
  const x = sinh * Math.cos(b), y = cosh * Math.sin(b), norm = a * a + b * b;
  const ratioRe = (x * a + y * b) / norm, ratioIm = (y * a - x * b) / norm;
  let re = 1, im = 0;
  for (let k = 0; k < PARTS; k++) [re, im] = [re * ratioRe - im * ratioIm, re * ratioIm + im * ratioRe];
  const modulus = Math.hypot(ratioRe, ratioIm) + 0.01;
  return { re, im, size: modulus ** PARTS, error: 100 * PARTS * (modulus + 1) * modulus ** (PARTS - 1) };
}
