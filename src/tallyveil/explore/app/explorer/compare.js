/** Two areas side by side, with their difference. */

import { csvText, download } from "../parts/csv.js";
import { element, refill } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { writeState } from "../parts/link-state.js";
import { count, decimal, rounded, share } from "../parts/numbers.js";
import { ANSWER_HEADINGS, answerRows } from "./answer-table.js";
import { areaTitle } from "./area.js";
import { searchBox } from "./search-box.js";
import { answerOf, estimateText, intervalText } from "./sentences.js";
import { answerTitle, hasCounts, kindTitle, tableTitle } from "./site.js";
import { differenceTable, ends } from "./sum-view.js";
import { areaKey } from "./view.js";

/** @typedef {import("./view.js").View} View */
/** @typedef {import("./areas.js").Areas} Areas */
/** @typedef {import("./area.js").Area} Area */
/** @typedef {import("./areas.js").Numbers} Numbers */
/** @typedef {import("./margins.js").Margins} Margins */

/**
 * Show the comparison that the address asks for, or offer one.
 * @param {HTMLElement} place
 * @param {Areas} areas
 * @param {View} view
 * @param {Margins} margins
 * @param {(text: string) => Promise<Area[]>} find
 */
export async function showCompare(place, areas, view, margins, find) {
  place.hidden = false;
  const box = searchBox({
    id: "compare-with", label: say("Compare with another area"), placeholder: say("Compare with …"), find,
    choose: (area) => writeState({ with: areaKey(area) }),
  });
  const head = element("div", { class: "head" }, element("h2", { id: "compare-title" }, say("Compare")), box);
  const { area, other, table } = view;
  if (!other) {
    refill(place, head, element("p", { class: "quiet" }, say("Choose an area to set beside {area}.", { area: areaTitle(area) })));
    return;
  }
  const end = element("button", { type: "button", onclick: () => writeState({ with: null }) }, say("End the comparison"));
  if (!table.kinds.includes(other.kind.number)) {
    refill(place, head, element("p", { class: "note" }, say("The chosen table has no counts of {areas}.", { areas: areaTitle(other) })), end);
    return;
  }
  const sides = await Promise.all([area, other].map((one) => areas.numbers(one, table.number)));
  const why = margins.why(table);
  const titles = [area, other].map(areaTitle);
  const result = element("div", { "aria-live": "polite" }, element("p", { class: "quiet" }, say("Computing the margin …")));
  const save = () => saveSides(areas, view, [area, other], sides);
  refill(place, head,
    element("h3", {}, chosenTitle(view)),
    element("div", { class: "sides" }, ...sides.map((numbers, which) => sideCard(areas, [area, other][which], answerOf(numbers, view.answer)))),
    result,
    element("div", { class: "actions" }, element("button", { type: "button", onclick: save }, say("Download both as CSV")), end));
  const [rows, minus] = await Promise.all([area, other].map((one) => areas.members(one)));
  const found = why === null ? await margins.sums(rows, table, minus) : null;
  const answers = table.answers.length > 1 ? await differenceTable(areas.site, table, sides, titles, found) : null;
  refill(result, ...differenceSentences(areas, view, titles, sides, found, why).map((sentence) => element("p", {}, sentence)), answers);
}

/** @param {View} view */
function chosenTitle({ table, answer }) {
  return table.answers.length > 1 ? `${tableTitle(table)}: ${answerTitle(table, answer)}` : tableTitle(table);
}

/**
 * @param {Areas} areas
 * @param {Area} area
 * @param {import("./sentences.js").Answer} answer
 */
function sideCard(areas, area, answer) {
  const interval = areas.site.intervals
    ? element("p", {}, say("{level} interval of the count before noise: {interval}", { level: share(areas.site.intervals.level), interval: intervalText(answer) })) : null;
  return element("div", { class: "figure is-published" },
    element("p", { class: "side-name" }, areaTitle(area), element("span", { class: "quiet" }, ` ${kindTitle(area.kind)}`)),
    element("p", { class: "side-count" }, hasCounts(areas.site) ? count(answer.published) : estimateText(answer), ` ${areas.site.unit}`), interval);
}

/**
 * @param {Areas} areas
 * @param {View} view
 * @param {string[]} titles
 * @param {Numbers[]} sides
 * @param {Numbers | null} found the difference with its margin
 * @param {string | null} why
 */
function differenceSentences(areas, view, titles, sides, found, why) {
  const [one, other] = sides.map((numbers) => numbers.published[view.answer]);
  const published = hasCounts(areas.site) ? [publishedDifference(one, other, titles, areas.site.unit)] : [];
  if (!found) return [...published, say("There is no margin for the difference. {reason}", { reason: why ?? "" })];
  const place = view.answer;
  const estimate = found.estimate[place];
  if (estimate === null) return [...published, say("The noisy measurements do not determine the difference.")];
  const level = /** @type {{level: number}} */ (areas.site.intervals).level;
  const said = say("The unbiased estimate of the difference is {estimate}, with a standard error of {error}.", { estimate: decimal(estimate), error: rounded(found.error[place]) });
  const interval = say("The {level} interval of the difference before noise is {interval}.", { level: share(level), interval: ends(found, place) });
  return [...published, said, found.low[place] === null ? say("There is no interval for it.") : interval];
}

/**
 * @param {number | null} one
 * @param {number | null} other
 * @param {string[]} titles
 * @param {string} unit
 */
function publishedDifference(one, other, titles, unit) {
  const values = { area: titles[0], other: titles[1], units: unit };
  if (one === null || other === null) return say("By published counts, {area} has an unknown number of {units} than {other}.", values);
  const number = count(Math.abs(one - other));
  return one >= other
    ? say("By published counts, {area} has {number} more {units} than {other}.", { ...values, number })
    : say("By published counts, {area} has {number} fewer {units} than {other}.", { ...values, number });
}

/**
 * @param {Areas} areas
 * @param {View} view
 * @param {Area[]} both
 * @param {Numbers[]} sides
 */
function saveSides(areas, view, both, sides) {
  const rows = both.flatMap((area, which) => answerRows(view.table, sides[which], [area.kind.name, area.geocode, area.name ?? ""]));
  download(`${areas.site.name}-comparison-${view.table.name}.csv`, csvText(["kind", "geocode", "name", ...ANSWER_HEADINGS], rows));
}
