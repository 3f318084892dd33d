/** The legend of a map: a colour and a text for each class. */

import { element, refill, svgElement } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { kindWords } from "./site.js";

/**
 * @param {HTMLElement} place
 * @param {string} title
 * @param {string[]} colours
 * @param {string[]} texts
 * @param {string} empty colour of areas without a value
 */
export function showLegend(place, title, colours, texts, empty) {
  const entries = [...colours.map((colour, one) => /** @type {const} */ ([colour, texts[one]])), /** @type {const} */ ([empty, say("No value")])];
  refill(place, element("strong", {}, title), element("ul", {}, ...entries.map(([colour, text]) =>
    element("li", {}, svgElement("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" },
      svgElement("rect", { x: 1, y: 1, width: 14, height: 14, rx: 2, fill: colour })), text))));
}

/**
 * A note that the lines of the map are no borders, where it was made from points; null elsewhere.
 * @param {import("./site.js").Site} site
 */
export function cellsNote({ map, kinds, finest }) {
  if (map?.made_from !== "points") return null;
  const { one } = kindWords(kinds[finest]);
  return element("p", { class: "map-note" }, say("The lines on this map are not borders. The release has one point for each {area}. The map gives a {area} all that is nearer " +
    "to its point than to any other point, and puts larger areas together from these cells.", { area: one }));
}
