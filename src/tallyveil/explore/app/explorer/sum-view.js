/** Sums and differences with their margins, as figures, sentences and a table. */

import { element } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { count, decimal, difference, rounded, share } from "../parts/numbers.js";
import { answerTable } from "./answer-table.js";
import { pagedTable } from "../parts/tables.js";
import { intervalPicture } from "./interval-picture.js";
import { answerOf, answerSentences, estimateText, outsideSentence, publishedSentence } from "./sentences.js";
import { answerTitle, hasCounts, tableTitle } from "./site.js";

/** @typedef {import("./areas.js").Numbers} Numbers */
/** @typedef {import("./site.js").Site} Site */
/** @typedef {import("./site.js").Table} Table */

/**
 * What a sum says.
 * @param {Site} site
 * @param {Table} table
 * @param {number} place the chosen answer
 * @param {Numbers} numbers
 * @param {string | null} why why there are no standard errors; null if there are
 * @returns {Promise<HTMLElement>}
 */
export async function sumView(site, table, place, numbers, why) {
  const answer = answerOf(numbers, place);
  const label = table.answers.length > 1 ? `${tableTitle(table)}: ${answerTitle(table, place)}` : tableTitle(table);
  const picture = site.intervals ? intervalPicture(answer) : null;
  const outside = outsideSentence(answer);
  const sentences = why === null
    ? answerSentences(answer, site.unit, /** @type {{level: number}} */ (site.intervals).level)
    : [...(hasCounts(site) ? [publishedSentence(answer.published, site.unit)] : answerSentences(answer, site.unit, 0)), say("There is no margin. {reason}", { reason: why })];
  return element("div", { class: "sum" },
    element("h3", {}, label), picture,
    ...sentences.map((sentence) => element("p", {}, sentence)),
    outside ? element("p", { class: "note" }, outside) : null,
    table.answers.length > 1
      ? await answerTable({ table, numbers, intervals: why === null, caption: say("{table}, sums", { table: tableTitle(table) }) }) : null);
}

/**
 * What a difference of two areas says: the first less the second.
 * @param {Site} site
 * @param {Table} table
 * @param {Numbers[]} sides numbers of both areas
 * @param {string[]} titles of both areas
 * @param {Numbers | null} margins the difference with its margin; null without
 * @returns {Promise<HTMLElement>}
 */
export function differenceTable(site, table, sides, titles, margins) {
  const level = site.intervals ? share(site.intervals.level) : "";
  return pagedTable({
    caption: say("{table}: {area} and {other}", { table: tableTitle(table), area: titles[0], other: titles[1] }),
    captionHidden: true,
    n: table.answers.length,
    page: 20,
    rows: (start, stop) => Array.from({ length: stop - start }, (_, place) => start + place),
    columns: [
      { heading: say("Answer"), head: true, show: (place) => answerTitle(table, place) },
      ...sides.map((numbers, which) => (
        { heading: titles[which], numeric: true, show: (/** @type {number} */ place) => (hasCounts(site) ? count(numbers.published[place]) : estimateText(answerOf(numbers, place))) })),
      ...(hasCounts(site) ? [{
        heading: say("Published difference"), numeric: true,
        show: (/** @type {number} */ place) => difference(minus(sides[0].published[place], sides[1].published[place])),
      }] : []),
      ...(margins ? [
        { heading: say("Estimated difference"), numeric: true, show: (/** @type {number} */ place) => decimal(margins.estimate[place]) },
        { heading: say("{level} interval", { level }), numeric: true, show: (/** @type {number} */ place) => ends(margins, place) },
        { heading: say("Standard error"), numeric: true, show: (/** @type {number} */ place) => rounded(margins.error[place]) },
      ] : []),
    ],
  });
}

/**
 * @param {Numbers} numbers
 * @param {number} place
 */
export function ends(numbers, place) {
  const low = numbers.low[place];
  return low === null ? "–" : say("{first} to {last}", { first: difference(low), last: difference(numbers.high[place]) });
}

/**
 * @param {number | null} left
 * @param {number | null} right
 */
function minus(left, right) {
  return left === null || right === null ? null : left - right;
}
