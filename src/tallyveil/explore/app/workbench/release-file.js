/** The release file that the page stands for: the given file with the numbers of the page in its slots. */

import { toText } from "./fractions.js";

/** @typedef {import("./state.js").PlanState} PlanState */

/**
 * @param {PlanState} state
 * @returns {string}
 */
export function releaseFile(state) {
  const slots = state.slots();
  return state.given.template.map((piece) => (typeof piece === "string" ? piece : toText(slots[piece.slot]))).join("");
}
