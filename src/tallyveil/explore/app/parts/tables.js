/** Tables that readers can sort, page through and read with a screen reader. */

import { element, refill } from "./elements.js";
import { say } from "./language.js";
import { count } from "./numbers.js";

/** @typedef {{id: string, direction: "ascending" | "descending" | null, choose: () => void}} Sorting */

/**
 * @template Row
 * @typedef {object} ColumnOf
 * @property {string} heading
 * @property {boolean} [numeric] whether the values stand to the right
 * @property {boolean} [head] whether the values name their rows
 * @property {Sorting | null} [sort] how the rows are sorted by it; null or nothing where they are not
 * @property {(row: Row) => string | Node} show
 */

/**
 * @template Row
 * @typedef {object} TableOf
 * @property {string} caption
 * @property {boolean} [captionHidden] whether only screen readers get the caption
 * @property {ColumnOf<Row>[]} columns
 * @property {number} n how many rows there are
 * @property {(start: number, stop: number) => Row[] | Promise<Row[]>} rows
 * @property {number} [page] rows of a page
 */

/**
 * A table that shows one page of its rows, with buttons for the others if there are more.
 * @template Row
 * @param {TableOf<Row>} table
 * @returns {Promise<HTMLElement>}
 */
export async function pagedTable(table) {
  const size = table.page ?? 25;
  const body = element("tbody");
  const head = element("thead", {}, element("tr", {}, ...table.columns.map(heading)));
  const caption = element("caption", { class: table.captionHidden ? "unseen" : null }, table.caption);
  const scroll = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": table.caption },
    element("table", {}, caption, head, body));
  const place = element("span", { "aria-live": "polite" });
  const back = element("button", { type: "button", onclick: () => show(start - size) }, say("Previous"));
  const next = element("button", { type: "button", onclick: () => show(start + size) }, say("Next"));
  let start = 0;

  /** @param {number} from */
  async function show(from) {
    start = from;
    const stop = Math.min(table.n, start + size);
    const rows = await table.rows(start, stop);
    refill(body, ...rows.map((row) => element("tr", {}, ...table.columns.map((column) => cell(column, row)))));
    refill(place, say("Rows {first} to {last} of {number}", { first: count(start + 1), last: count(stop), number: count(table.n) }));
    back.disabled = start === 0;
    next.disabled = stop === table.n;
  }

  await show(0);
  if (table.n <= size) return scroll;
  return element("div", {}, scroll, element("div", { class: "pager" }, back, place, next));
}

/**
 * @template Row
 * @param {ColumnOf<Row>} column
 */
function heading(column) {
  const { heading: text, sort } = column;
  const arrow = sort?.direction === "ascending" ? " ▲" : sort?.direction === "descending" ? " ▼" : "";
  return element("th", { scope: "col", class: column.numeric ? "number" : null, "aria-sort": sort?.direction ?? null }, sort
    ? element("button", { type: "button", class: "sort", id: sort.id, onclick: sort.choose }, text, element("span", { "aria-hidden": "true" }, arrow)) : text);
}

/**
 * @template Row
 * @param {ColumnOf<Row>} column
 * @param {Row} row
 */
function cell(column, row) {
  const kind = column.numeric ? "number" : null;
  return column.head
    ? element("th", { scope: "row", class: kind }, column.show(row))
    : element("td", { class: kind }, column.show(row));
}
