/**
 * Upper bounds of epsilon and delta of discrete Gaussian noise, and what follows from them for one person.
 *
 * Every number here errs on the safe side: it is never below the smallest epsilon, or delta, that holds. `losses` says
 * how delta is bounded. The width is about how far the bound may be above the truth.
 */

import { contourAt, depthFor, PARTS } from "./losses.js";

const WIDTHS = [1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4];
const COARSE = 1e-4;
/** What is added to epsilon, so that it is not below the upper end that `tallyveil plan` gives. */
export const MARGIN = 2e-9;

/** @typedef {import("./losses.js").Losses} Losses */
/** @typedef {import("./losses.js").Contour} Contour */

/**
 * An upper bound of the smallest epsilon that holds with a delta, and the width that it was computed with; null if the
 * losses return to the same values too often for every width.
 * @param {Losses} losses
 * @param {number} delta
 * @param {number} [finest]  the smallest width that is tried
 * @returns {{ epsilon: number, width: number } | null}
 */
export function epsilonAt(losses, delta, finest = 1e-9) {
  const target = Math.log(delta) - 8 * 2 ** -53 * Math.abs(Math.log(delta));
  // What rho alone gives is above; the coarse bound is near enough for the tilt of the fine one.
  const above = losses.total / 2 + Math.sqrt(-2 * losses.total * target);
  const guess = boundWith(losses, target, COARSE, above);
  if (guess === null) return null;
  for (const width of WIDTHS) {
    if (width < finest) continue;
    const found = boundWith(losses, target, width, guess);
    if (found !== null) return { epsilon: found === 0 ? 0 : found + MARGIN, width };
  }
  return null;
}

/**
 * The bound of epsilon with one width, or null if this width asks for too much work.
 * @param {Losses} losses
 * @param {number} target  ln delta
 * @param {number} width
 * @param {number} guess  about where epsilon is
 * @returns {number | null}
 */
function boundWith(losses, target, width, guess) {
  const contour = contourAt(losses, depthFor(losses, width), tiltFor(losses, guess), guess);
  if (!contour) return null;
  return logDelta(contour, 0) <= target ? 0 : root(contour, target, guess);
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
