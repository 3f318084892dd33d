/** What the plan costs: epsilon for both relations between neighbours. */

import { byId, element, refill } from "../../parts/elements.js";
import { phrase, say } from "../../parts/language.js";
import { shown } from "../../parts/shown.js";
import { RELATIONS } from "../privacy.js";
import { atMost, change } from "../text.js";

/** @typedef {import("../privacy.js").Cost} Cost */
/** @typedef {import("../privacy.js").Relation} Relation */
/** @typedef {import("../state.js").PlanState} PlanState */

const IN_WORDS = { bounded: phrase("one record changes its value"), unbounded: phrase("one record is added or removed") };

/**
 * @param {PlanState} state
 * @param {Record<Relation, Cost>} costs
 * @param {import("../baseline.js").Baseline | null} before  null if there is nothing to compare with
 */
export function showCost(state, costs, before) {
  const place = byId("cost"), { given } = state;
  place.hidden = false;
  const delta = state.isGaussian ? ` ${say("at delta = {delta}", { delta: decimal(given.delta) })}` : "";
  refill(place,
    element("h2", { id: "cost-title", tabindex: -1 }, say("Privacy loss")),
    element("div", { class: "costs" }, ...RELATIONS.map((relation) => {
      const cost = costs[relation], own = relation === given.neighbours;
      return element("div", { class: own ? "figure own" : "figure" },
        element("p", { class: "label" }, own ? say("{relation} neighbours (as the file states it)", { relation: say(relation) }) : say("{relation} neighbours", { relation: say(relation) })),
        element("p", { class: "big", id: `epsilon-${relation}` }, `epsilon ≤ ${atMost(cost.epsilon)}`),
        element("p", { class: "quiet" }, `${say(IN_WORDS[relation])}${delta}`),
        cost.by === "exact" && cost.classical !== null
          ? element("p", { class: "quiet" }, say("from the budget rho alone: ≤ {number}", { number: atMost(cost.classical) })) : null,
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
  const kind = alike ? "" : before.state.isGaussian ? ` ${say("at delta = {delta}", { delta: decimal(before.given.delta) })}` : ` (${say("pure")})`;
  return `${shown(before.name)}: ≤ ${atMost(was.epsilon)}${kind}${moved ? ` (${say("now {change}", { change: moved })})` : ""}`;
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
  if (bypasses) found.push(say("Geounits may be bypassed. This page does not know which ones, so it computes epsilon from rho alone."));
  else if (state.isGaussian && RELATIONS.some((relation) => costs[relation].by === "zcdp")) {
    found.push(say("Some noise has a variance below 1/4. Here epsilon follows from rho alone; `tallyveil plan` gives a smaller one."));
  }
  if (!state.isGaussian) found.push(say("Pure differential privacy. `tallyveil plan` also shows the smaller epsilon at the file's delta."));
  if (before && !isSameKind(before.state, state)) {
    found.push(say("{name} has another delta or another kind of noise. So the two epsilons are not the same measure of loss.", { name: shown(before.name) }));
  }
  if (before?.isOther && before.given.neighbours !== state.given.neighbours) {
    found.push(say("{name} states its budget for {relation} neighbours. Both plans are shown for both relations here.", { name: shown(before.name), relation: say(before.given.neighbours) }));
  }
  if (invariants.length) found.push(say("Published exactly, and outside this guarantee: {counts}.", { counts: invariants.map(shown).join("; ") }));
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
