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
 * @param {{ name: string, costs: Record<Relation, Cost> | null, delta: string, neighbours: Relation }} before
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
          ? element("p", { class: "quiet" }, `by rho alone (zCDP): ≤ ${atMost(cost.classical)}`) : null,
        before.costs ? element("p", { class: "quiet" }, compared(before, relation, cost)) : null);
    })),
    ...notes(state, costs).map((text) => element("p", { class: "quiet" }, text)));
}

/**
 * @param {{ name: string, costs: Record<Relation, Cost> | null, delta: string }} before
 * @param {Relation} relation
 * @param {Cost} cost
 */
function compared(before, relation, cost) {
  if (!before.costs) return "";
  const was = before.costs[relation].epsilon, moved = change(was, cost.epsilon);
  return `${shown(before.name)}: ≤ ${atMost(was)}${moved ? ` (now ${moved})` : ""}`;
}

/**
 * @param {PlanState} state
 * @param {Record<Relation, Cost>} costs
 * @returns {string[]}
 */
function notes(state, costs) {
  const found = [];
  const { bypasses, invariants } = state.given;
  if (bypasses) found.push("Geounits may be bypassed, and which ones is known once the geography is opened. So epsilon follows from rho alone.");
  else if (state.isGaussian && RELATIONS.some((relation) => costs[relation].by === "zcdp")) {
    found.push("Some noise has a variance below 1/4. Here epsilon follows from rho alone; `tallyveil plan` gives a smaller one.");
  }
  if (!state.isGaussian) found.push("Pure differential privacy. `tallyveil plan` also shows the smaller epsilon at the file's delta.");
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
