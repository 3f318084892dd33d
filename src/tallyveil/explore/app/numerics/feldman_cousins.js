/**
 * The unified interval of Feldman and Cousins for a mean that cannot be negative, in units of the standard error.
 *
 * Problem. One normal observation x has variance 1 and a mean m >= 0. Wanted is an interval for m that is never empty
 * and covers m with exactly the given probability, whatever m is.
 *
 * Steps. For each m, values x are accepted in decreasing order of their likelihood under m relative to that under the
 * best mean for x, which is max(x, 0), until their probability is the level. The interval of x contains every m that
 * accepts x. Let the acceptance of m end at m + d. Its lower end is m - d if that is not negative, and
 * m/2 - d^2/(2 m) otherwise. Bisection finds the d for which the acceptance has the probability of the level. The ends
 * are tabulated over m and interpolated as functions of x.
 *
 * Stopping rule. Bisection makes a fixed number of steps, which exhausts double precision.
 *
 * Worked case. At level 0.95, x = 5 gives 5 - 1.96 = 3.04 to 6.96, and x = 0 gives 0 to 1.96.
 *
 * Source: Feldman and Cousins 1998, Phys. Rev. D 57, 3873, section IV.B; `tallyveil.estimation.intervals.interval`.
 */

import { normalProbability, normalQuantile } from "./normal_law.js";
import { Pchip } from "./pchip.js";

/** Below -9 standard errors, the lower tail of the normal law is too small for double precision. */
const FAR = 9;
const KNOTS = 2001;
const STEPS = 60;

/** Ends of the interval as functions of the estimate, in standard errors. */
export class UnifiedBelt {
  /** @param {number} level Coverage, between 0.5 and 1. */
  constructor(level) {
    this.twoSided = normalQuantile(0.5 + level / 2);
    this.oneSided = normalQuantile(level);
    const means = Float64Array.from({ length: KNOTS - 1 }, (_, i) => this.twoSided * ((i + 1) / (KNOTS - 1)) ** 2);
    const widths = means.map((mean) => halfWidth(mean, level, this.oneSided, this.twoSided));
    const uppers = means.map((mean, i) => mean + widths[i]);
    const lowers = means.map((mean, i) => mean / 2 - (widths[i] * widths[i]) / (2 * mean));
    const begin = lowers.findIndex((lower) => lower >= -2 * FAR);
    this.lowEnd = new Pchip(Float64Array.of(this.oneSided, ...uppers), Float64Array.of(0, ...means));
    this.highEnd = new Pchip(lowers.subarray(begin), means.subarray(begin));
  }

  /**
   * The lower end for an estimate.
   * @param {number} x
   */
  low(x) {
    if (x <= this.oneSided) return 0;
    return Math.max(x < 2 * this.twoSided ? this.lowEnd.value(x) : x - this.twoSided, 0);
  }

  /**
   * The upper end for an estimate.
   * @param {number} x
   */
  high(x) {
    // For such x the lower tail is negligible, so d = oneSided, and m/2 - d^2/(2 m) = x is solved for m.
    if (x <= -FAR) return this.oneSided ** 2 / (Math.hypot(x, this.oneSided) - x);
    return x < 0 ? this.highEnd.value(x) : x + this.twoSided;
  }
}

/**
 * d of a mean, by bisection: the acceptance up to m + d then has the level's probability.
 * @param {number} mean @param {number} level
 * @param {number} one @param {number} two
 */
function halfWidth(mean, level, one, two) {
  let [small, large] = [one, two];
  for (let step = 0; step < STEPS; step++) {
    const d = (small + large) / 2;
    const lower = -mean / 2 - (d * d) / (2 * mean); // lower end minus m
    if (normalProbability(d) - normalProbability(lower) >= level) large = d;
    else small = d;
  }
  return (small + large) / 2;
}
