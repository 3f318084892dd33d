/** Show an answer: as a table that readers sort, and as a chart. */

import { element } from "../parts/elements.js";
import { phrase, say } from "../parts/language.js";
import { writeState } from "../parts/link-state.js";
import { count, counted } from "../parts/numbers.js";
import { pagedTable } from "../parts/tables.js";
import { shown } from "../parts/shown.js";
import { sortedRows } from "./answer.js";
import { CELLS } from "./asked.js";
import { chartOf } from "./chart.js";
import { choice } from "./numbers-card.js";

/** @typedef {import("./answer.js").AnswerTable} AnswerTable */
/** @typedef {import("./answer.js").Row} Row */
/** @typedef {import("./asked.js").Asked} Asked */

const PAGE = 50; // rows of a page

/**
 * @param {AnswerTable} table
 * @param {Asked} asked
 */
export async function answerView(table, asked) {
  const { answer } = table;
  const rows = sortedRows(table, asked.sort, asked.cells);
  const unusable = answer.columns.usable.some((one) => one === false);
  const lacking = [...new Set(answer.columns.lacking.filter((one) => one !== null))];
  const cut = answer.rows > answer.columns.usable.length;
  const chart = asked.chart && table.kind !== "level" ? chartOf(table, rows) : null;
  return element("div", { class: "answer" },
    cut ? element("p", { class: "note" }, say("The answer has {rows} rows, of which the first {shown} are shown and sorted here. The files have all of them.", { rows: count(answer.rows), shown: count(answer.columns.usable.length) })) : null,
    element("div", { class: "row controls" },
      choice("cells", say("Cells show"), CELLS.map(([value, words]) => /** @type {[string, string]} */ ([value, value === "published" && !table.hasPublished ? say("Estimate, with interval") : say(words)])), asked.cells, (cells) => writeState({ cells: cells === CELLS[0][0] ? null : cells, sort: null })),
      table.kind === "level" ? null : element("button", {
        type: "button", id: "chart", "aria-pressed": String(asked.chart), onclick: () => writeState({ chart: asked.chart ? null : "1" }),
      }, say("Chart"))),
    chart,
    await pagedTable({
      caption: caption(table, asked), n: rows.length, page: PAGE, rows: (start, stop) => rows.slice(start, stop),
      columns: [...heads(table, asked), ...(asked.cells === "all" ? allColumns(table) : cellColumns(table, asked))],
    }),
    unusable ? element("p", { class: "quiet" }, element("span", { class: "mark" }, "†"),
      ` ${say("Half the width of the interval is more than {limit} times the number: do not use it. Ask for larger areas or coarser groups.", { limit: answer.limit })}`) : null,
    ...lacking.map((reason) => element("p", { class: "quiet" }, say("No estimate: {reason}.", { reason: shown(reason) }))),
    element("p", { class: "quiet" }, answer.covers));
}

/**
 * @param {AnswerTable} table
 * @param {Asked} asked
 */
function caption(table, asked) {
  return `${counted(table.rows.length, say("row"), say("rows"))}${table.columns.length > 1 ? `, ${counted(table.columns.length, say("column"), say("columns"))}` : ""}: ${shown(asked.text)}`;
}

/**
 * @param {AnswerTable} table
 * @param {Asked} asked
 */
function heads(table, asked) {
  return table.heads.map((heading, place) => ({
    heading, head: true, sort: sorting(place, asked),
    show: (/** @type {Row} */ { labels }) => {
      const { title, code } = labels[place];
      return code === null ? title : element("span", {}, title, " ", element("small", { class: "quiet" }, code));
    },
  }));
}

/**
 * @param {AnswerTable} table
 * @param {Asked} asked
 */
function cellColumns(table, asked) {
  return table.columns.map((title, place) => ({
    heading: title === "" ? say(NUMBER[table.kind]) : title, numeric: true, sort: sorting(table.heads.length + place, asked),
    show: (/** @type {Row} */ { cells }) => cell(table, cells[place], asked),
  }));
}

/** What a column without a name has. @type {Record<import("./answer.js").NumberKind, string>} */
const NUMBER = { count: phrase("Count"), share: phrase("Share"), deviation: phrase("Deviation"), index: phrase("Index"), level: phrase("Level") };

/**
 * @param {AnswerTable} table
 * @param {number | null} place
 * @param {Asked} asked
 */
function cell(table, place, asked) {
  const isEstimate = asked.cells === "estimate";
  const number = isEstimate ? table.text(table.value("estimate", place), true) : table.text(table.published(place));
  const error = table.value("standard_error", place);
  const beside = isEstimate ? (error === null ? "" : `± ${table.text(error, true)}`) : table.interval(place);
  const statement = table.value("statement", place);
  return element("span", { class: table.value("usable", place) === false ? "cell unusable" : "cell" },
    element("span", { class: "cell-number" }, number, ...usableMark(table, place)),
    element("small", {}, beside),
    statement === null ? null : element("small", {}, statement));
}

/**
 * @param {AnswerTable} table
 * @param {number | null} place
 */
function usableMark(table, place) {
  if (table.value("usable", place) !== false) return [];
  return [element("span", { class: "mark", "aria-hidden": "true" }, "†"), element("span", { class: "unseen" }, ` ${say("(not to be used)")}`)];
}

/**
 * Every column of the answer, for each of the columns of the table.
 * @param {AnswerTable} table
 */
function allColumns(table) {
  const numbers = [
    ...(table.answer.is_counts ? [] : [["count", say("Count")], ["of", say("of")]]),
    [table.answer.is_counts ? "count" : "published", say("Published")], ["estimate", say("Estimate")], ["standard_error", say("Standard error")],
    ["interval", say("Interval")], ["usable", say("Usable")], ["probability", say("Probability")], ["statement", say("Statement")],
  ].filter(([name]) => name === "interval" ? "lower" in table.answer.columns : name in table.answer.columns);
  return table.columns.flatMap((title, column) => numbers.map(([name, words]) => ({
    heading: title === "" ? words : `${title}: ${words}`, numeric: true,
    show: (/** @type {Row} */ { cells }) => {
      const place = cells[column];
      if (name === "interval") return table.interval(place);
      const value = table.value(name, place);
      if (value === null) return "–";
      if (typeof value === "boolean") return value ? say("yes") : say("no");
      if (name === "count" || name === "of") return count(value);
      return name === "statement" ? value : name === "probability" ? String(value) : table.text(value, true);
    },
  })));
}

/**
 * @param {number} place
 * @param {Asked} asked
 */
function sorting(place, { sort }) {
  const mine = sort !== "" && Number.parseInt(sort, 10) === place;
  /** @type {"ascending" | "descending" | null} */
  const direction = !mine ? null : sort.endsWith("-") ? "descending" : "ascending";
  // The largest first, then the smallest first, then as the answer has them.
  const next = direction === null ? `${place}-` : direction === "descending" ? `${place}+` : null;
  return { id: `sort-${place}`, direction, choose: () => writeState({ sort: next }) };
}
