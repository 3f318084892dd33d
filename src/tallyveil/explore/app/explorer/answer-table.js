/** The answers of one table in one area, as a table with pictures of the intervals. */

import { phrase, say } from "../parts/language.js";
import { count, difference, rounded } from "../parts/numbers.js";
import { shown } from "../parts/shown.js";
import { pagedTable } from "../parts/tables.js";
import { intervalSpark, ownAxis } from "./interval-picture.js";
import { answerOf, estimateText, intervalText, side } from "./sentences.js";
import { answerTitle } from "./site.js";

/** @typedef {import("./sentences.js").Answer} Answer */
/** @typedef {import("./areas.js").Numbers} Numbers */
/** @typedef {import("./site.js").Table} Table */
/** @typedef {{place: number, answer: Answer, before: number | null}} Row */

/**
 * @param {object} options
 * @param {Table} options.table
 * @param {string} options.caption
 * @param {Numbers} options.numbers
 * @param {boolean} options.intervals whether the site has intervals
 * @param {{name: string, numbers: Numbers} | null} [options.compared] the same table of another release
 * @param {((place: number) => Node) | null} [options.choose] what names an answer, such as a button that chooses it
 * @returns {Promise<HTMLElement>}
 */
export function answerTable({ table, caption, numbers, intervals, compared = null, choose = null }) {
  // Measurements have none.
  const counts = numbers.published.some((number) => number !== null);
  const rows = table.answers.map((_, place) => ({
    place, answer: answerOf(numbers, place), before: compared ? compared.numbers.published[place] : null,
  }));
  return pagedTable({
    caption,
    captionHidden: true,
    n: rows.length,
    page: 20,
    rows: (start, stop) => rows.slice(start, stop),
    columns: [
      { heading: say("Answer"), head: true, show: (row) => choose ? choose(row.place) : answerTitle(table, row.place) },
      ...(counts ? [{ heading: say("Published"), numeric: true, show: (/** @type {Row} */ { answer }) => count(answer.published) }] : []),
      ...(compared ? [
        { heading: say("Published in the other release, {name}", { name: shown(compared.name) }), numeric: true, show: (/** @type {Row} */ row) => count(row.before) },
        { heading: say("Difference"), numeric: true, show: (/** @type {Row} */ row) => difference(minus(row.answer.published, row.before)) },
      ] : []),
      ...(intervals ? [
        { heading: say("Interval"), numeric: true, show: (/** @type {Row} */ { answer }) => intervalText(answer) },
        ...(counts ? [{ heading: say("In its interval"), show: (/** @type {Row} */ { answer }) => place(answer) }] : []),
        { heading: say("Estimate"), numeric: true, show: (/** @type {Row} */ { answer }) => estimateText(answer) },
        { heading: say("Standard error"), numeric: true, show: (/** @type {Row} */ { answer }) => rounded(answer.error) },
      ] : []),
    ],
  });
}

/**
 * The rows of the table as CSV has them.
 * @param {Table} table
 * @param {Numbers} numbers
 * @param {string[]} lead what stands before each answer
 */
export function answerRows(table, numbers, lead) {
  return table.answers.map((label, place) => [
    ...lead, table.name, label, numbers.published[place], numbers.estimate[place], numbers.error[place], numbers.low[place], numbers.high[place],
  ]);
}

/** The headings of `answerRows`, after those of its lead. */
export const ANSWER_HEADINGS = ["table", "answer", "published", "estimate", "standard_error", "lower", "upper"];

/** @type {Record<-1 | 0 | 1, string>} */
const PLACES = { [-1]: phrase("published below"), 0: phrase("published inside"), 1: phrase("published above") };

/** @param {Answer} answer */
function place(answer) {
  const where = side(answer);
  if (where === null) return "–";
  const said = document.createElement("span");
  said.className = "unseen";
  said.textContent = say(PLACES[where]);
  const both = document.createElement("span");
  both.title = say(PLACES[where]);
  both.append(intervalSpark(answer, ...ownAxis(answer)), said);
  return both;
}

/**
 * @param {number | null} left
 * @param {number | null} right
 */
function minus(left, right) {
  return left === null || right === null ? null : left - right;
}
