/** What the plan costs: epsilon for both relations between neighbours. */

import { byId, element, refill } from "../../parts/elements.js";
import { shown } from "../../parts/shown.js";
import { RELATIONS } from "../privacy.js";
import { atMost, change } from "../text.js";

/** @typedef {import("../privacy.js").Cost} Cost */
/** @typedef {import("../privacy.js").Relation} Relation */
/** @typedef {import("../state.js").PlanState} PlanState */

const IN_WORDS = { bounded: "one record changes its value", unbounded: "one record is added or removed" };

/**
 * @param {PlanState} state
 * @param {Record<Relation, Cost>} costs
 * @param {import("../baseline.js").Baseline | null} before  null if there is nothing to compare with
 */
export function showCost(state, costs, before) {
  const place = byId("cost"), { given } = state;
  place.hidden = false;
  const delta = state.isGaussian ? ` at delta = ${decimal(given.delta)}` : "";
  refill(place,
    element("h2", { id: "cost-title", tabindex: -1 }, "Privacy loss"),
    element("div", { class: "costs" }, ...RELATIONS.map((relation) => {
      const cost = costs[relation], own = relation === given.neighbours;
      return element("div", { class: own ? "figure own" : "figure" },
        element("p", { class: "label" }, `${relation} neighbours${own ? " (as the file states it)" : ""}`),
        element("p", { class: "big", id: `epsilon-${relation}` }, `epsilon ≤ ${atMost(cost.epsilon)}`),
        element("p", { class: "quiet" }, `${IN_WORDS[relation]}${delta}`),
        cost.by === "exact" && cost.classical !== null
          ? element("p", { class: "quiet" }, `from the budget rho alone: ≤ ${atMost(cost.classical)}`) : null,
        before?.costs ? element("p", { class: "quiet" }, compared(before, before.costs[relation], state, cost)) : null);
    })),
    ...notes(state, costs, before).map((text) => element("p", { class: "quiet" }, text)));
}

/**
 * @param {import("../baseline.js").Baseline} before
 * @param {Cost} was
 * @param {PlanState} state
 * @param {Cost} now
 */
function compared(before, was, state, now) {
  const alike = isSameKind(before.state, state), moved = alike ? change(was.epsilon, now.epsilon) : "";
  const kind = alike ? "" : before.state.isGaussian ? ` at delta = ${decimal(before.given.delta)}` : " (pure)";
  return `${shown(before.name)}: ≤ ${atMost(was.epsilon)}${kind}${moved ? ` (now ${moved})` : ""}`;
}

/**
 * Whether the epsilons of two plans can be compared: both are pure, or both are for the same delta.
 * @param {PlanState} one
 * @param {PlanState} other
 */
function isSameKind(one, other) {
  return one.isGaussian === other.isGaussian && (!one.isGaussian || one.delta === other.delta);
}

/**
 * @param {PlanState} state
 * @param {Record<Relation, Cost>} costs
 * @param {import("../baseline.js").Baseline | null} before
 * @returns {string[]}
 */
function notes(state, costs, before) {
  const found = [];
  const { bypasses, invariants } = state.given;
  if (bypasses) found.push("Geounits may be bypassed. This page does not know which ones, so it computes epsilon from rho alone.");
  else if (state.isGaussian && RELATIONS.some((relation) => costs[relation].by === "zcdp")) {
    found.push("Some noise has a variance below 1/4. Here epsilon follows from rho alone; `tallyveil plan` gives a smaller one.");
  }
  if (!state.isGaussian) found.push("Pure differential privacy. `tallyveil plan` also shows the smaller epsilon at the file's delta.");
  if (before && !isSameKind(before.state, state)) {
    found.push(`${shown(before.name)} has another delta or another kind of noise. So the two epsilons are not the same measure of loss.`);
  }
  if (before?.isOther && before.given.neighbours !== state.given.neighbours) {
    found.push(`${shown(before.name)} states its budget for ${before.given.neighbours} neighbours. Both plans are shown for both relations here.`);
  }
  if (invariants.length) found.push(`Published exactly, and outside this guarantee: ${invariants.map(shown).join("; ")}.`);
  return found;
}

/**
 * A fraction as a decimal or a power of ten.
 * @param {string} text
 */
function decimal(text) {
  const power = /^1\/(10+)$/.exec(text);
  return power ? `1e-${power[1].length - 1}` : text;
}
