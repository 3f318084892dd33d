/** What the page says of the spine, and the numbers of children of a regular one. */

import { element, refill } from "../../parts/elements.js";
import { count } from "../../parts/numbers.js";
import { say } from "../../parts/language.js";
import { shown } from "../../parts/shown.js";
import { counts } from "../estimates.js";

/** @typedef {import("../state.js").GivenSpine} GivenSpine */

export const MOST_CHILDREN = 100_000;

/**
 * @param {GivenSpine} spine
 * @param {number[]} children  numbers of a regular spine, which the fields change
 * @param {() => void} changed
 * @returns {HTMLElement}
 */
export function spinePart(spine, children, changed) {
  if (spine.kind === "geography") {
    const numbers = spine.shown.map((level) => `${count(spine.numbers[level])} ${shown(spine.levels[level])}`);
    return element("p", { class: "quiet" }, say("The spine of the public geography: {numbers}.", { numbers: numbers.join(", ") }));
  }
  const said = element("p", { class: "quiet" });
  const describe = () => {
    const numbers = counts(children).map((n, level) => `${count(n)} ${shown(spine.levels[level])}`);
    refill(said, say("Here: {numbers}. --read-geography uses the real spine and the public bounds.", { numbers: numbers.join(", ") }));
  };
  describe();
  return element("details", {},
    element("summary", {}, say("A regular spine: every geounit has the same number of children")),
    element("div", { class: "row children" }, ...children.map((n, level) => {
      const field = element("input", { type: "number", min: 1, max: MOST_CHILDREN, step: 1, value: n, onchange: () => {
        const value = Math.round(Number(field.value));
        if (value >= 1 && value <= MOST_CHILDREN) children[level] = value;
        field.value = String(children[level]);
        describe();
        changed();
      } });
      return element("label", { class: "field" }, say("{lower} in each {upper}", { lower: shown(spine.levels[level + 1]), upper: shown(spine.levels[level]) }), field);
    })), said);
}
