/** An answer as rows and columns, and its numbers in words. */

import { say } from "../parts/language.js";
import { count, decimal, NONE, rounded, share } from "../parts/numbers.js";
import { kindTitle } from "../explorer/site.js";
import { shown } from "../parts/shown.js";
import { partsOf } from "./asked.js";
import { emptyQuestion } from "./grammar.js";

/** @typedef {import("./server.js").Answer} Answer */
/** @typedef {import("./asked.js").Asked} Asked */
/** @typedef {import("./catalogue.js").Catalogue} Catalogue */

/** @typedef {{title: string, code: string | null, order: number}} Label what a row or a column is, as readers see it; its place in the answer */
/** @typedef {{labels: Label[], cells: (number | null)[]}} Row the cells are places in the answer */

/** What kind of number an answer has. @typedef {"count" | "share" | "deviation" | "index" | "level"} NumberKind */

export class AnswerTable {
  /** What the labels of rows are. @type {string[]} */
  heads;
  /** What the columns are; one without a name if nothing makes columns. @type {string[]} */
  columns;
  /** @type {Row[]} */
  rows;
  /** @type {NumberKind} */
  kind;
  answer;
  /** What a level of the attribute of a measure is called. @type {(level: string) => string} */
  #level;

  /**
   * @param {Answer} answer
   * @param {Asked} asked
   * @param {Catalogue} catalogue
   */
  constructor(answer, asked, catalogue) {
    this.answer = answer;
    this.kind = numberKind(asked, answer);
    const { measured, rows, columns } = partsOf(asked);
    this.#level = (level) => catalogue.level(measured[0] ?? "", level);
    const keys = (/** @type {string[]} */ names) => names.map((name) => keyOf(name, catalogue)).filter((key) => answer.keys.includes(key));
    const across = keys(columns);
    const own = keys(rows);
    const down = [...answer.keys.filter((key) => !own.includes(key) && !across.includes(key)), ...own];
    const kind = catalogue.kindOf(asked.question ?? emptyQuestion());
    this.heads = down.map((key) => key !== "geocode" ? catalogue.title(key) : kind === null ? say("Area") : kindTitle(kind));
    const labels = new Labels(answer, catalogue);
    /** @type {Map<string, Row>} */
    const byKey = new Map();
    /** @type {Map<string, {place: number, labels: Label[]}>} */
    const headings = new Map();
    const n = answer.columns.usable.length;
    for (let place = 0; place < n; place++) {
      const heading = across.map((key) => labels.at(key, place));
      const headingKey = JSON.stringify(across.map((key) => answer.columns[key][place]));
      if (!headings.has(headingKey)) headings.set(headingKey, { place: headings.size, labels: heading });
      const rowKey = JSON.stringify(down.map((key) => answer.columns[key][place]));
      const row = byKey.get(rowKey) ?? { labels: down.map((key) => labels.at(key, place)), cells: [] };
      byKey.set(rowKey, row);
      row.cells[/** @type {{place: number}} */ (headings.get(headingKey)).place] = place;
    }
    const ordered = [...headings.values()].sort((one, other) => compared(one.labels, other.labels));
    this.columns = ordered.map(({ labels: parts }) => parts.map(({ title }) => title).join(" · "));
    this.rows = [...byKey.values()].map((row) => ({ labels: row.labels, cells: ordered.map(({ place }) => row.cells[place] ?? null) }))
      .sort((one, other) => compared(one.labels, other.labels));
  }

  /**
   * A column of the answer at a place; null where there is nothing.
   * @param {string} name
   * @param {number | null} place
   */
  value(name, place) {
    const value = place === null ? null : this.answer.columns[name]?.[place] ?? null;
    return value === "Infinity" || value === "-Infinity" ? Number(value) : value;
  }

  /** The column of what is published; null where no counts are, as of measurements. */
  get #publishedColumn() {
    const name = this.answer.is_counts ? "count" : "published";
    return name in this.answer.columns ? name : null;
  }

  /** Whether counts are published, or numbers that follow from them. */
  get hasPublished() {
    return this.#publishedColumn !== null;
  }

  /**
   * The number that is published, or follows from what is; the estimate where no counts are published.
   * @param {number | null} place
   */
  published(place) {
    return this.value(this.#publishedColumn ?? "estimate", place);
  }

  /**
   * A number of this answer in words.
   * @param {any} value
   * @param {boolean} [exact] whether decimals of counts are shown, as estimates have them
   */
  text(value, exact = false) {
    if (value === null) return NONE;
    if (this.kind === "level") return this.#level(value);
    if (value === Infinity) return "∞";
    if (value === -Infinity) return "−∞";
    if (this.kind === "count") return exact ? decimal(value) : count(value);
    return this.kind === "index" ? rounded(value) : share(value);
  }

  /** @param {number | null} place */
  interval(place) {
    const [low, high] = [this.value("lower", place), this.value("upper", place)];
    if (low === null || high === null) return NONE;
    return low === high ? this.text(low) : say("{low} to {high}", { low: this.text(low), high: this.text(high) });
  }
}

/** The labels of an answer, in words. */
class Labels {
  #answer;
  #orders;
  #catalogue;

  /**
   * @param {Answer} answer
   * @param {Catalogue} catalogue
   */
  constructor(answer, catalogue) {
    this.#answer = answer;
    this.#catalogue = catalogue;
    this.#orders = new Map(answer.keys.map((key) => /** @type {const} */ ([key, new Map([...new Set(answer.columns[key])].map((label, order) => [label, order]))])));
  }

  /**
   * @param {string} key
   * @param {number} place
   * @returns {Label}
   */
  at(key, place) {
    const label = this.#answer.columns[key][place];
    const order = this.#orders.get(key)?.get(label) ?? 0;
    if (key !== "geocode") return { title: this.#catalogue.level(key, label), code: null, order };
    const name = this.#answer.names?.[place] ?? null;
    return { title: shown(name ?? label), code: name === null ? null : shown(label), order };
  }
}

/**
 * The column of an answer that a name of the question makes.
 * @param {string} name
 * @param {Catalogue} catalogue
 */
function keyOf(name, catalogue) {
  const grouping = catalogue.find(name)?.grouping;
  return grouping?.kind ? "geocode" : grouping?.name ?? name;
}

/**
 * @param {Asked} asked
 * @param {Answer} answer
 * @returns {NumberKind}
 */
function numberKind({ question }, answer) {
  if (answer.is_counts || question === null) return "count";
  if (question.measure !== null) return /^(median|quantile)/.test(question.measure) ? "level" : "index";
  return question.deviation ? "deviation" : "share";
}

/**
 * @param {Label[]} one
 * @param {Label[]} other
 */
function compared(one, other) {
  const place = one.findIndex((label, at) => label.order !== other[at].order);
  return place < 0 ? 0 : one[place].order - other[place].order;
}

/**
 * The rows in another order. Rows without a value come last.
 * @param {AnswerTable} table
 * @param {string} sort a place among labels and columns, and + or -
 * @param {string} cells what the cells show
 * @returns {Row[]}
 */
export function sortedRows(table, sort, cells) {
  if (sort === "") return table.rows;
  const at = Number.parseInt(sort, 10);
  const sign = sort.endsWith("-") ? -1 : 1;
  const heads = table.heads.length;
  if (at >= heads + table.columns.length) return table.rows;
  if (at < heads) return [...table.rows].sort((one, other) => sign * byText(one.labels[at].title, other.labels[at].title));
  const value = (/** @type {Row} */ row) => cells === "estimate" ? table.value("estimate", row.cells[at - heads]) : table.published(row.cells[at - heads]);
  return [...table.rows].sort((one, other) => {
    const [left, right] = [value(one), value(other)];
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    return sign * (typeof left === "string" ? byText(left, right) : left - right);
  });
}

const collator = new Intl.Collator(undefined, { numeric: true });

/**
 * @param {string} one
 * @param {string} other
 */
function byText(one, other) {
  return collator.compare(one, other);
}
