/** What a plan costs: epsilon for both relations between neighbours, and what follows for one person. */

import { epsilonAt } from "./epsilon.js";
import { lossesOf } from "./losses.js";
import { personOf, personOfPure } from "./person.js";
import { zcdpEpsilon } from "./zcdp.js";

/** @typedef {"bounded" | "unbounded"} Relation */
/** @typedef {import("./person.js").Person} Person */

/**
 * A plan's noise, as far as its cost depends on it.
 * @typedef {object} Question
 * @property {boolean} gaussian
 * @property {boolean} bypasses  whether geounits may be bypassed, so that only the budget is known
 * @property {Relation} neighbours  the relation that the budget is stated for
 * @property {number} total  rho, or the pure epsilon
 * @property {number} delta
 * @property {{ parameter: number, moved: number }[]} answers  for the relation of the plan
 */

/**
 * @typedef {object} Cost
 * @property {number} epsilon  an upper bound
 * @property {number | null} classical  what rho alone gives; null without Gaussian noise
 * @property {"exact" | "zcdp" | "pure"} by
 */

export const RELATIONS = /** @type {const} */ (["bounded", "unbounded"]);

/**
 * @param {Question} question
 * @param {Relation} relation
 * @param {number} [factor]  of the budget; for curves
 * @param {number} [finest]  width of epsilon's bound
 * @returns {Cost}
 */
export function costOf(question, relation, factor = 1, finest = 1e-9) {
  const ratio = relation === question.neighbours ? 1 : relation === "bounded" ? 2 : 0.5;
  const spent = question.total * ratio * factor;
  if (!question.gaussian) return { epsilon: spent, classical: null, by: "pure" };
  const classical = zcdpEpsilon(spent, question.delta);
  const losses = question.bypasses ? null : lossesUnder(question, ratio, factor);
  const exact = losses && epsilonAt(losses, question.delta, finest);
  return exact ? { epsilon: exact.epsilon, classical, by: "exact" } : { epsilon: classical, classical, by: "zcdp" };
}

/**
 * What the cost means for one person under the plan's relation; null where only rho is known.
 * @param {Question} question
 * @returns {Person | null}
 */
export function meaningOf(question) {
  if (!question.gaussian) return personOfPure(question.total);
  const losses = question.bypasses ? null : lossesUnder(question, 1, 1);
  return losses && personOf(losses);
}

/**
 * The largest budget of three decimals whose epsilon is at most a target, as a multiple of 1/1000; null if there is none.
 * @param {Question} question
 * @param {number} target
 * @returns {number | null}
 */
export function budgetFor(question, target) {
  /** @param {number} thousandths */
  const holds = (thousandths) =>
    costOf(question, question.neighbours, thousandths / 1000 / question.total, 1e-7).epsilon <= target;
  let low = 0, high = 1;
  while (holds(high)) {
    [low, high] = [high, 2 * high];
    if (high > 1e9) return null;
  }
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (holds(middle)) low = middle;
    else high = middle;
  }
  return low || null;
}

/**
 * @param {Question} question
 * @param {number} ratio
 * @param {number} factor
 */
function lossesUnder(question, ratio, factor) {
  return lossesOf(question.answers.map(({ parameter, moved }) => ({ variance: parameter / factor, answers: moved * ratio })));
}
