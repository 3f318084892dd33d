/**
 * Upper bounds of epsilon and delta of discrete Gaussian noise, and what follows from them for one person.
 *
 * Every number here errs on the safe side: it is never below the smallest epsilon, or delta, that holds. `losses` says
 * how delta is bounded. The width is about how far the bound may be above the truth.
 */

import { contourAt, depthFor, PARTS } from "./losses.js";

const WIDTHS = [1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4];
/** What is added to epsilon, so that it is not below the upper end that `tallyveil plan` gives. */
export const MARGIN = 2e-9;

/** @typedef {import("./losses.js").Losses} Losses */
/** @typedef {import("./losses.js").Contour} Contour */

/**
 * An upper bound of the smallest epsilon that holds with a delta, and the width that it was computed with; null if the
 * losses return to the same values too often for every width.
 * @param {Losses} losses
 * @param {number} delta
 * @returns {{ epsilon: number, width: number } | null}
 */
export function epsilonAt(losses, delta) {
  const target = Math.log(delta) - 8 * 2 ** -53 * Math.abs(Math.log(delta));
  const guess = gaussianEpsilon(Math.sqrt(losses.total), target);
  for (const width of WIDTHS) {
    const contour = contourAt(losses, depthFor(losses, width), tiltFor(losses, guess), guess);
    if (!contour) continue;
    if (logDelta(contour, 0) <= target) return { epsilon: 0, width };
    const found = root(contour, target, guess);
    if (found !== null) return { epsilon: found + MARGIN, width };
  }
  return null;
}

/**
 * An upper bound of delta at an epsilon of 0 or more; null as for `epsilonAt`.
 * @param {Losses} losses
 * @param {number} epsilon
 * @param {number} [finest]  the smallest width that is tried
 * @returns {number | null}
 */
export function deltaAt(losses, epsilon, finest = 1e-7) {
  for (const width of WIDTHS) {
    if (width < finest) continue;
    const contour = contourAt(losses, depthFor(losses, width), tiltFor(losses, epsilon), epsilon);
    if (contour) return Math.min(1, Math.exp(logDelta(contour, epsilon)) * (1 + 1e-12));
  }
  return null;
}

/**
 * An upper bound of ln delta.
 * @param {Contour} contour
 * @param {number} epsilon
 */
function logDelta(contour, epsilon) {
  const { tilt, half, total, frequencies, real, imaginary } = contour;
  const there = epsilon - (half * half) / (6 * PARTS), away = total / 2 - there;
  let sum = 0;
  for (let k = 0; k < frequencies.length; k++) {
    const turns = (away / (2 * Math.PI)) * frequencies[k], angle = 2 * Math.PI * (turns - Math.round(turns));
    sum += real[k] * Math.cos(angle) - imaginary[k] * Math.sin(angle);
  }
  const value = sum + contour.error + contour.growth * Math.abs(away);
  if (!(value > 0)) return 0;
  const unit = ((tilt + tilt * tilt) * total) / 2 - contour.logNorm, less = tilt * there;
  const slack = 2 ** -53 * (80 * Math.abs(unit) + 16 * Math.abs(less) + 64);
  return Math.min(0, Math.log(value) + unit - less + slack);
}

/**
 * An epsilon at which the bound of delta is at most the target, and which is close to the smallest one.
 * @param {Contour} contour
 * @param {number} target  ln delta
 * @param {number} guess
 * @returns {number | null}
 */
function root(contour, target, guess) {
  let low = 0, high = Math.max(2 * guess, 1);
  for (let i = 0; logDelta(contour, high) > target; i++, high *= 2) if (i > 60) return null;
  let at = Math.min(guess, high);
  for (let i = 0; i < 100 && high - low > 1e-13 * (1 + high); i++) {
    const off = logDelta(contour, at) - target;
    if (off > 0) low = at;
    else high = at;
    // The slope of ln delta is about minus the tilt; a step a little too long makes the bracket short on both sides.
    const step = at + (off * 1.02) / contour.tilt + (off > 0 ? 1e-13 : -1e-13);
    at = step > low && step < high && i % 8 !== 7 ? step : (low + high) / 2;
  }
  return high;
}

/**
 * About the tilt at which the terms of the rule are smallest.
 * @param {Losses} losses
 * @param {number} epsilon
 */
function tiltFor(losses, epsilon) {
  const V = losses.total, spread = Math.sqrt(V);
  let low = 0, high = Infinity, tilt = Math.max((epsilon - V / 2) / V, 1 / spread);
  for (let i = 0; i < 60; i++) {
    const slope = V / 2 + tilt * V - epsilon - 1 / tilt - 1 / (tilt + 1);
    if (slope < 0) low = tilt;
    else high = tilt;
    const next = tilt - slope / (V + 1 / tilt ** 2 + 1 / (tilt + 1) ** 2);
    tilt = next > low && next < high ? next : Number.isFinite(high) ? (low + high) / 2 : 2 * tilt;
  }
  return Math.max(tilt, 1 / (4 * spread));
}

/**
 * Epsilon of one normal answer: near that of many discrete ones, and only a place to start.
 * @param {number} mu
 * @param {number} logDelta
 */
function gaussianEpsilon(mu, logDelta) {
  let low = 0, high = (mu * mu) / 2 + mu * Math.sqrt(2 * Math.max(-logDelta, 0)) + mu;
  for (let i = 0; i < 60; i++) {
    const epsilon = (low + high) / 2;
    const first = logNormal(mu / 2 - epsilon / mu), second = epsilon + logNormal(-mu / 2 - epsilon / mu);
    const found = first + Math.log(Math.max(-Math.expm1(Math.min(second - first, 0)), 1e-300));
    if (found > logDelta) low = epsilon;
    else high = epsilon;
  }
  return (low + high) / 2;
}

/**
 * About the logarithm of the normal distribution function.
 * @param {number} x
 */
function logNormal(x) {
  if (x > 0) return Math.log1p(-Math.exp(logNormal(-x)));
  const y = -x; // Mills' ratio by a continued fraction
  let ratio = y;
  for (let k = 60; k >= 1; k--) ratio = y + k / (ratio + (y < 1 ? 1 - y : 0));
  return -(x * x) / 2 - 0.5 * Math.log(2 * Math.PI) - Math.log(ratio || 1);
}
