/** What the workers are asked about a plan, and their answers by place. */

import { toNumber } from "./fractions.js";
import { placeOf } from "./panels/accuracy-panel.js";

/** @typedef {import("./state.js").PlanState} PlanState */
/** @typedef {import("./state.js").Noise} Noise */
/** @typedef {import("./estimates.js").Summary} Summary */

/**
 * What a plan's cost depends on.
 * @param {PlanState} state
 * @param {Noise[]} noise
 * @returns {import("./privacy.js").Question}
 */
export function questionOf(state, noise) {
  const { bypasses, neighbours } = state.given;
  return {
    gaussian: state.isGaussian, bypasses, neighbours, total: toNumber(state.total), delta: state.delta,
    answers: noise.map(({ parameter, moved }) => ({ parameter, moved })),
  };
}

/**
 * Standard deviations of one noisy answer, by place.
 * @param {Noise[]} noise
 * @returns {Map<string, number>}
 */
export function noiseErrors(noise) {
  return new Map(noise.map((one) => [placeOf(one.geolevel, one.query), Math.sqrt(one.variance)]));
}

/**
 * Standard deviations of estimates, by place.
 * @param {Summary[]} summaries
 * @param {"smallest" | "median" | "largest"} statistic
 * @param {string[]} levels
 * @param {string[]} tables
 * @returns {Map<string, number>}
 */
export function estimateErrors(summaries, statistic, levels, tables) {
  return new Map(summaries.map((one) => [placeOf(levels[one.level], tables[one.table]), one[statistic]]));
}

/**
 * The variances that the covariances of a spine depend on.
 * @param {Noise[]} noise
 */
export function variancesOf(noise) {
  return noise.map(({ geolevel, query, variance }) => ({ geolevel, query, variance }));
}
