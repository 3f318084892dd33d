/**
 * Intervals for counts, from unbiased estimates and their variances.
 *
 * The unified interval is for counts, which cannot be negative. The normal interval is for anything else, such as
 * differences. Ends are rounded inward to whole numbers, because the true count is one. Laplace noise has no intervals.
 *
 * Worked case. An estimate is 3.2 with variance 4, that is x = 1.6. At level 0.95 the unified interval is 0 to
 * 2 x (1.6 + 1.96) = 7.12; rounded inward, it is 0 to 7. The normal interval is -0.72 to 7.12, rounded 0 to 7.
 *
 * Source: `tallyveil.estimation.intervals.interval`.
 */

import { UnifiedBelt } from "./feldman_cousins.js";
import { normalQuantile } from "./normal_law.js";

/** @typedef {[number, number]} Interval Lower and upper end; NaN for no interval, Infinity for no upper end. */

/** Rounding of floats may have moved an end by this many counts, plus 1e-9 of the estimate. */
const GRAIN = 1e-6;
/** No larger level of a single interval is tabulated, because floats cannot tell it from 1. */
const LARGEST_LEVEL = 1 - 2 ** -52;

/** Tabulated levels; the oldest goes when there are more than this. */
const MOST_BELTS = 16;
/** @type {Map<number, UnifiedBelt>} */
const BELTS = new Map();

/**
 * The unified interval of a count, in whole numbers.
 * @param {number} estimate Unbiased.
 * @param {number} variance Infinity if the measurements do not determine the count.
 * @param {number} level Coverage, at least 0.5 and below 1.
 * @returns {Interval}
 */
export function unifiedInterval(estimate, variance, level) {
  const error = Math.sqrt(variance);
  if (!Number.isFinite(error)) return [0, Infinity];
  if (error === 0) return roundedInward(estimate, estimate, estimate, 0);
  const belt = beltOf(level);
  return roundedInward(estimate, belt.low(estimate / error) * error, belt.high(estimate / error) * error, 0);
}

/**
 * The normal interval of a difference of counts, in whole numbers.
 * @param {number} estimate Unbiased.
 * @param {number} variance Infinity if the measurements do not determine the difference.
 * @param {number} level Coverage, at least 0.5 and below 1.
 * @returns {Interval}
 */
export function normalInterval(estimate, variance, level) {
  refuseLevel(level);
  const error = Math.sqrt(variance);
  if (!Number.isFinite(error)) return [-Infinity, Infinity];
  const reach = normalQuantile(0.5 + level / 2) * error;
  return roundedInward(estimate, estimate - reach, estimate + reach, -Infinity);
}

/**
 * The level of each of several intervals that together have a level (Bonferroni).
 * @param {number} level
 * @param {number} n Number of intervals.
 * @returns {number}
 */
export function levelOfEach(level, n) {
  return 1 - (1 - level) / n;
}

/**
 * Intervals of the answers of a district, as `tallyveil intervals --district` gives them.
 * @param {ArrayLike<number>} estimates NaN where there is none.
 * @param {ArrayLike<number>} variances Infinity where the measurements do not determine the answer.
 * @param {object} asked
 * @param {number} asked.level Coverage, at least 0.5 and below 1.
 * @param {boolean} asked.gaussian Whether the noise is Gaussian. Otherwise only exact counts have an interval.
 * @param {boolean} [asked.difference] Whether one district is subtracted from another.
 * @param {number} [asked.together] Number of intervals that together have the level; 1 if it is left out. All tables
 *   of a district count together: the number of answers with an estimate and a finite variance.
 * @returns {(Interval | null)[]} null where there is no interval.
 */
export function districtIntervals(estimates, variances, asked) {
  const each = levelOfEach(asked.level, asked.together ?? 1);
  const make = asked.difference ? normalInterval : unifiedInterval;
  return Array.from(estimates, (estimate, answer) => {
    const variance = variances[answer];
    if (!Number.isFinite(estimate) || !Number.isFinite(variance)) return null;
    if (asked.gaussian) return make(estimate, variance, each);
    return variance === 0 ? [nearestEven(estimate), nearestEven(estimate)] : null;
  });
}

/**
 * The smallest and the largest whole number inside, not below `least`; or twice the one nearest to the estimate.
 * @param {number} estimate @param {number} low @param {number} high @param {number} least
 * @returns {Interval}
 */
function roundedInward(estimate, low, high, least) {
  const grain = GRAIN * (1 + 1e-3 * Math.abs(estimate));
  const first = Math.max(Math.ceil(low - grain), least);
  const last = Math.floor(high + grain);
  if (!(first > last)) return [first + 0, last + 0];
  const nearest = Math.max(nearestEven(estimate), least);
  return [nearest + 0, nearest + 0];
}

/**
 * The nearest whole number, and the even one of two that are equally near.
 * @param {number} x
 */
function nearestEven(x) {
  const below = Math.floor(x);
  if (x - below !== 0.5) return Math.round(x);
  return below % 2 === 0 ? below : below + 1;
}

/** @param {number} level */
function beltOf(level) {
  refuseLevel(level);
  const made = BELTS.get(level);
  if (made) return made;
  const belt = new UnifiedBelt(level);
  if (BELTS.size === MOST_BELTS) BELTS.delete(BELTS.keys().next().value ?? level);
  BELTS.set(level, belt);
  return belt;
}

/** @param {number} level */
function refuseLevel(level) {
  if (level >= 0.5 && level <= LARGEST_LEVEL) return;
  throw new RangeError(
    `the level of an interval is ${level}; wanted at least 0.5 and at most ${LARGEST_LEVEL}. Ask for a lower level, ` +
      "or for fewer intervals together.",
  );
}
