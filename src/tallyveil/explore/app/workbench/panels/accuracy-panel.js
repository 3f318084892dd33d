/** Expected errors of every query at every geolevel, as a table in which a reader chooses a count. */

import { byId, element, refill } from "../../parts/elements.js";
import { phrase, say } from "../../parts/language.js";
import { shown } from "../../parts/shown.js";
import { change, deviation } from "../text.js";

/** @typedef {"estimate" | "noise"} Kind */
/** @typedef {"smallest" | "median" | "largest"} Statistic */
/** @typedef {{ kind: Kind, statistic: Statistic, geolevel: string, query: string }} Chosen */
/** @typedef {Map<string, number>} Errors  standard deviations by `placeOf` */

/**
 * @typedef {object} Shown
 * @property {string[]} geolevels
 * @property {string[]} queries
 * @property {Errors} now
 * @property {Errors | null} before
 * @property {string} beforeName
 * @property {Chosen} chosen
 * @property {boolean} hasEstimates
 * @property {string | null} why  why there are no estimates
 * @property {string | null} whyBefore  why there are none of the plan that is compared with
 * @property {string} units
 * @property {Node | null} spine  what is said of the spine
 * @property {Set<string>} late  geolevels whose numbers are still being computed
 */

const KINDS = /** @type {const} */ ({ estimate: phrase("estimates from all noisy answers"), noise: phrase("one noisy answer") });
const STATISTICS = /** @type {const} */ ([phrase("smallest"), phrase("median"), phrase("largest")]);

/**
 * @param {string} geolevel
 * @param {string} query
 */
export const placeOf = (geolevel, query) => `${geolevel}\n${query}`;

/**
 * @param {Shown} what
 * @param {(changes: Partial<Chosen>) => void} choose
 */
export function showAccuracy(what, choose) {
  const place = byId("accuracy"), { chosen } = what;
  place.hidden = false;
  const focused = place.contains(document.activeElement) ? document.activeElement?.getAttribute("data-key") : null;
  const kinds = element("select", { id: "kind", "data-key": "kind", onchange: () => choose({ kind: /** @type {Kind} */ (kinds.value) }) },
    ...Object.entries(KINDS).filter(([kind]) => kind === "noise" || what.hasEstimates)
      .map(([kind, text]) => element("option", { value: kind }, say(text))));
  kinds.value = chosen.kind;
  const statistics = element("select", { id: "statistic", "data-key": "statistic",
    onchange: () => choose({ statistic: /** @type {Statistic} */ (statistics.value) }) },
    ...STATISTICS.map((one) => element("option", { value: one }, say(one))));
  statistics.value = chosen.statistic;
  refill(place,
    element("h2", { id: "accuracy-title" }, say("Expected error")),
    element("div", { class: "row" },
      element("label", { class: "field" }, say("Error of"), kinds),
      chosen.kind === "estimate" ? element("label", { class: "field" }, say("Over all geounits and answers, the"), statistics) : null),
    chosen.kind === "estimate" ? what.spine : null,
    what.why && chosen.kind === "noise" ? element("p", { class: "quiet" }, say("Estimates are not offered: {reason}", { reason: say(what.why) })) : null,
    what.whyBefore ? element("p", { class: "quiet" }, say("Estimates of {name} are not offered: {reason}", { name: shown(what.beforeName), reason: say(what.whyBefore) })) : null,
    matrix(what, choose),
    element("p", { class: "quiet" }, sentence(what)));
  if (focused) /** @type {HTMLElement | null} */ (place.querySelector(`[data-key="${CSS.escape(focused)}"]`))?.focus();
}

/** @param {Shown} what */
function sentence({ chosen, units, beforeName, before }) {
  const about = chosen.kind === "noise"
    ? say("Standard deviation, in {units}, of the noise of one answer before estimation; – where the query is not measured.", { units })
    : say("Standard deviation, in {units}, of the unbiased estimate that all noisy answers together allow, from the privacy noise alone. Published counts have another error, because they are whole and not negative.", { units });
  const compared = before ? [say("In the second line of a cell: the change from {name}.", { name: shown(beforeName) })] : [];
  return [about, ...compared, say("Choose a count to see it in the curve.")].join(" ");
}

/**
 * @param {Shown} what
 * @param {(changes: Partial<Chosen>) => void} choose
 */
function matrix(what, choose) {
  const { geolevels, queries, late } = what;
  const caption = say("Expected error by query and geolevel: {kind}", { kind: say(KINDS[what.chosen.kind]) });
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    element("table", { class: "matrix" }, element("caption", { class: "unseen" }, caption),
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, say("query")),
        ...geolevels.map((level) => element("th", { scope: "col", class: "number" }, shown(level), late.has(level) ? " …" : "")))),
      element("tbody", {}, ...queries.map((query) => element("tr", {}, element("th", { scope: "row" }, shown(query)),
        ...geolevels.map((level) => element("td", { class: late.has(level) ? "number late" : "number" }, cell(what, level, query, choose))))))));
}

/**
 * @param {Shown} what
 * @param {string} geolevel
 * @param {string} query
 * @param {(changes: Partial<Chosen>) => void} choose
 */
function cell({ now, before, chosen }, geolevel, query, choose) {
  const place = placeOf(geolevel, query), value = now.get(place);
  if (value === undefined) return "–";
  const was = before?.get(place), moved = was === undefined ? "" : change(was, value);
  const pressed = chosen.geolevel === geolevel && chosen.query === query;
  return element("button", {
    type: "button", class: "count", "data-key": place, "aria-pressed": String(pressed),
    onclick: () => choose({ geolevel, query }),
  }, element("span", { class: "value" }, deviation(value)),
  before ? element("span", { class: moved.startsWith("−") ? "moved better" : "moved worse" }, moved || " ") : null);
}
