/** The accuracy frontier: the error of the chosen count at every budget, with the shares as they are. */

import { byId, element, refill } from "../../parts/elements.js";
import { figure, say } from "../../parts/language.js";
import { shown } from "../../parts/shown.js";
import { curvePicture, logTicks } from "./plot.js";
import { atMost, deviation } from "../text.js";

/** @typedef {{ epsilon: number, error: number }} Point */
/** @typedef {Point & { name: string, kind: "now" | "before" }} Named */

/** Factors of the budget on the curve. */
export const FACTORS = [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16];

/**
 * @param {string} what  the chosen count, in words
 * @param {Point[]} points  one for each factor; none if the count is exact
 * @param {Named[]} named  plans to mark
 * @param {string} units
 */
export function showFrontier(what, points, named, units) {
  const place = byId("frontier");
  place.hidden = false;
  const open = place.querySelector("details")?.open ?? false;
  const title = element("h2", { id: "frontier-title" }, say("Error against epsilon"));
  const known = points.filter(isDrawn);
  const about = element("p", {}, element("strong", {}, shown(what)), say(", with the shares as they are now and other budgets."));
  if (known.length < 2) {
    refill(place, title, about, element("p", { class: "quiet" },
      say("This count is published exactly, or not determined, at every budget. Choose another one in the table.")));
    return;
  }
  const marks = named.filter(isDrawn);
  const all = [...known, ...marks], range = (/** @type {number[]} */ values) => logTicks(Math.min(...values), Math.max(...values));
  const plain = (/** @type {number} */ value) => figure(value >= 1000 ? value.toLocaleString("en") : String(value));
  const most = Math.max(...marks.map(({ error }) => error));
  const details = element("details", { open }, element("summary", {}, say("The same as a table")),
    element("table", {}, element("caption", { class: "unseen" }, say("Error of {what} by budget", { what: shown(what) })),
      element("thead", {}, element("tr", {}, ...[say("budget"), "epsilon ≤", say("error ({units})", { units })].map((text, i) =>
        element("th", { scope: "col", class: i ? "number" : null }, text)))),
      element("tbody", {}, ...points.map((point, i) => row(FACTORS[i] === 1 ? say("now") : say("{factor} × now", { factor: factorText(FACTORS[i]) }), point)),
        ...marks.filter(({ kind }) => kind === "before").map((point) => row(point.name, point)))));
  refill(place, title, about,
    curvePicture({ title: "epsilon", ticks: range(all.map((one) => one.epsilon)), log: true, text: plain },
      { title: say("standard deviation, {units}", { units }), ticks: range(all.map((one) => one.error)), log: true, text: plain },
      [{ kind: "now", points: known.map(({ epsilon, error }) => [epsilon, error]) }],
      marks.map(({ epsilon, error, name, kind }) => ({ kind, at: [epsilon, error], label: shown(name), above: error === most }))),
    details);
}

/** @param {Point} point */
const isDrawn = ({ epsilon, error }) => epsilon > 0 && error >= 1e-6 && Number.isFinite(error);

/**
 * @param {string} name
 * @param {Point} point
 */
function row(name, { epsilon, error }) {
  return element("tr", {}, element("th", { scope: "row" }, shown(name)),
    element("td", { class: "number" }, atMost(epsilon)), element("td", { class: "number" }, deviation(error)));
}

/** @param {number} factor */
function factorText(factor) {
  return factor < 1 ? `1/${1 / factor}` : String(factor);
}
