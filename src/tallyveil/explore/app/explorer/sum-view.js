/** Sums and differences with their margins, as figures, sentences and a table. */

import { element } from "../parts/elements.js";
import { count, decimal, difference, rounded, share } from "../parts/numbers.js";
import { answerTable } from "./answer-table.js";
import { pagedTable } from "../parts/tables.js";
import { intervalPicture } from "./interval-picture.js";
import { answerOf, answerSentences, outsideSentence } from "./sentences.js";
import { answerTitle, tableTitle } from "./site.js";

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
    : [`The published count is ${count(answer.published)} ${site.unit}.`, `There is no margin. ${why}`];
  return element("div", { class: "sum" },
    element("h3", {}, label), picture,
    ...sentences.map((sentence) => element("p", {}, sentence)),
    outside ? element("p", { class: "note" }, outside) : null,
    table.answers.length > 1
      ? await answerTable({ table, numbers, intervals: why === null, caption: `${tableTitle(table)}, sums` }) : null);
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
    caption: `${tableTitle(table)}: ${titles[0]} and ${titles[1]}`,
    captionHidden: true,
    n: table.answers.length,
    page: 20,
    rows: (start, stop) => Array.from({ length: stop - start }, (_, place) => start + place),
    columns: [
      { heading: "Answer", head: true, show: (place) => answerTitle(table, place) },
      ...sides.map((numbers, which) => (
        { heading: titles[which], numeric: true, show: (/** @type {number} */ place) => count(numbers.published[place]) })),
      {
        heading: "Published difference", numeric: true,
        show: (place) => difference(minus(sides[0].published[place], sides[1].published[place])),
      },
      ...(margins ? [
        { heading: "Estimated difference", numeric: true, show: (/** @type {number} */ place) => decimal(margins.estimate[place]) },
        { heading: `${level} interval`, numeric: true, show: (/** @type {number} */ place) => ends(margins, place) },
        { heading: "Standard error", numeric: true, show: (/** @type {number} */ place) => rounded(margins.error[place]) },
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
  return low === null ? "–" : `${difference(low)} to ${difference(numbers.high[place])}`;
}

/**
 * @param {number | null} left
 * @param {number | null} right
 */
function minus(left, right) {
  return left === null || right === null ? null : left - right;
}
