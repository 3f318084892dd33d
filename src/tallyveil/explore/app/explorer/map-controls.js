/** The lists over the map: what it shows, and by which areas. */

import { element } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { writeState } from "../parts/link-state.js";
import { MEASURES } from "./measures.js";
import { kindTitle, kindWords } from "./site.js";

/** @typedef {import("./measures.js").Measure} Measure */

/**
 * @param {import("./site.js").Site} site
 * @param {{measures: Measure[], measure: Measure, kind: number | null, shown: number}} state kind: null for automatic
 * @param {HTMLElement[]} buttons
 * @returns {HTMLElement}
 */
export function mapControls(site, { measures, measure, kind, shown }, buttons) {
  const measureList = element("select", { id: "measure", onchange: () => writeState({ measure: measureList.value }) },
    ...measures.map((one) => element("option", { value: one, selected: one === measure }, say(MEASURES[one].title))));
  const tiles = /** @type {NonNullable<typeof site.map>} */ (site.map).tiles;
  const automatic = say("Automatic ({kind})", { kind: kindWords(site.kinds[shown]).one });
  const kindList = element("select", { id: "map-kind", onchange: () => writeState({ kind: kindList.value === "" ? null : kindList.value }) },
    element("option", { value: "", selected: kind === null }, kind === null ? automatic : say("Automatic")),
    ...tiles.map((one) => element("option", { value: one.kind, selected: one.kind === kind }, kindTitle(site.kinds[one.kind]))));
  return element("div", { class: "row" },
    element("label", { class: "field" }, element("span", {}, say("Map of")), measureList),
    element("label", { class: "field" }, element("span", {}, say("Areas")), kindList),
    ...buttons);
}
