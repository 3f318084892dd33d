/** What a choice of the reader makes of a question. */

import { writeState } from "../parts/link-state.js";
import { askQuestion, partsOf, readAsked } from "./asked.js";
import { COMPARING, emptyQuestion } from "./grammar.js";

/** @typedef {import("./catalogue.js").Catalogue} Catalogue */
/** @typedef {import("./grammar.js").Question} Question */
/** @typedef {"rows" | "columns"} Zone */

export class Choices {
  #catalogue;

  /** @param {Catalogue} catalogue */
  constructor(catalogue) {
    this.#catalogue = catalogue;
  }

  /** Read anew at each choice: a quick reader chooses again before the page shows what was chosen before. */
  get #asked() {
    return readAsked(this.#catalogue);
  }

  /** The question that is asked now; an empty one if its words cannot be read. */
  get question() {
    return this.#asked.question ?? emptyQuestion();
  }

  get parts() {
    return partsOf(this.#asked);
  }

  /**
   * Where a name stands; null if it makes neither rows nor columns.
   * @param {string} name
   * @returns {Zone | null}
   */
  zoneOf(name) {
    const { rows, columns } = this.parts;
    const same = (/** @type {string} */ other) => this.#same(other, name);
    return rows.some(same) ? "rows" : columns.some(same) ? "columns" : null;
  }

  /**
   * Put a name into the rows or the columns. Another grouping of its field goes out.
   * @param {string} name
   * @param {Zone} zone
   * @param {number} [at] the place in the zone, before the name is taken from where it is; at the end without it
   */
  put(name, zone, at = Infinity) {
    const field = this.#catalogue.find(name)?.field;
    const parts = { rows: [...this.parts.rows], columns: [...this.parts.columns] };
    const before = parts[zone].slice(0, at).filter((other) => this.#catalogue.find(other)?.field === field).length;
    for (const side of /** @type {const} */ (["rows", "columns"])) {
      parts[side] = parts[side].filter((other) => this.#catalogue.find(other)?.field !== field);
    }
    parts[zone].splice(Math.min(at, Infinity) - before, 0, name);
    this.#ask(this.question, parts.rows, parts.columns);
  }

  /** @param {string} name */
  takeOut(name) {
    const { rows, columns } = this.parts;
    const others = (/** @type {string[]} */ names) => names.filter((other) => !this.#same(other, name));
    this.#ask(this.question, others(rows), others(columns));
  }

  /**
   * Count only some levels.
   * @param {string} name
   * @param {string[]} labels empty for all
   * @param {boolean} [span] whether all from the first to the last of two are meant
   */
  count(name, labels, span = false) {
    const place = this.question.where.findIndex((condition) => this.#same(condition.name, name));
    const where = [...this.question.where];
    const added = labels.length > 0 ? [{ name, labels, span }] : [];
    where.splice(place < 0 ? where.length : place, place < 0 ? 0 : 1, ...added);
    this.#ask({ ...this.question, where });
  }

  /** @param {string[]} areas empty for all */
  choose(areas) {
    writeState({ plan: null, file: null }, true);
    this.#ask({ ...this.question, areas: areas.length > 0 ? areas : null });
  }

  /** @param {string} area */
  addArea(area) {
    const areas = this.question.areas ?? [];
    if (!areas.includes(area)) this.choose([...areas, area]);
  }

  /** @param {string} area */
  removeArea(area) {
    this.choose((this.question.areas ?? []).filter((other) => other !== area));
  }

  /**
   * Subtract an area no longer.
   * @param {string} area
   */
  removeSubtracted(area) {
    this.#ask({ ...this.question, minus: this.question.minus.filter((other) => other !== area) });
  }

  /**
   * Ask about the areas of a file. A kind of areas makes no rows then.
   * @param {string} plan
   * @param {string} file
   */
  choosePlan(plan, file) {
    const kind = this.#catalogue.kindOf(this.question);
    const { rows, columns } = this.parts;
    const others = (/** @type {string[]} */ names) => names.filter((name) => this.#catalogue.find(name)?.grouping.kind !== kind || kind === null);
    writeState({ plan, file }, true);
    this.#ask({ ...this.question, areas: null }, others(rows), others(columns));
  }

  /** No areas of a file. */
  leavePlan() {
    writeState({ plan: null, file: null });
  }

  /**
   * What the numbers are.
   * @param {"count" | "share" | "deviation" | "median" | "quantile" | "entropy" | "dissimilarity" | "gini" | "theil"} what
   * @param {{of?: string, across?: string, part?: string, shareOf?: string[]}} [details]
   */
  number(what, { of, across, part, shareOf } = {}) {
    const { measured, rows, columns } = this.parts;
    const attributes = this.#catalogue.fields.slice(1).map((field) => field.groupings[0].name);
    const isMeasure = !["count", "share", "deviation"].includes(what);
    const first = isMeasure ? of ?? measured[0] ?? [...rows, ...columns].find((name) => !this.#catalogue.find(name)?.grouping.kind) ?? attributes[0] : null;
    const field = first === null ? null : this.#catalogue.find(first)?.field ?? null;
    const others = (/** @type {string[]} */ names) => names.filter((name) => field === null || this.#catalogue.find(name)?.field !== field);
    // An attribute that was measured goes back into the rows.
    const back = isMeasure ? [] : measured;
    this.#ask({
      ...this.question,
      shareOf: what === "share" ? shareOf ?? this.question.shareOf ?? [] : null,
      deviation: what === "deviation",
      measure: !isMeasure ? null : what === "quantile" ? `quantile ${part ?? "0.9"}` : what,
      across: COMPARING.includes(what) ? across ?? this.question.across ?? this.#finer() : null,
      minus: isMeasure ? [] : this.question.minus,
    }, [...others(rows), ...back], others(columns), first === null ? [] : [first]);
  }

  /** A geolevel whose areas an index can compare: the one inside that of the rows. */
  #finer() {
    const levels = this.#catalogue.fields[0].groupings.filter(({ kind }) => kind?.type === "geolevel");
    const kind = this.#catalogue.kindOf(this.question);
    const place = levels.findIndex((grouping) => grouping.kind === kind);
    return levels[Math.min(place + 1, levels.length - 1)].name;
  }

  /**
   * @param {Question} question
   * @param {string[]} [rows]
   * @param {string[]} [columns]
   * @param {string[]} [measured]
   */
  #ask(question, rows = this.parts.rows, columns = this.parts.columns, measured = this.parts.measured) {
    const by = [...measured, ...rows, ...columns];
    const kept = [...rows, ...columns, ...question.where.map(({ name }) => name)];
    const shareOf = question.shareOf?.filter((name) => kept.some((other) => this.#same(other, name))) ?? null;
    const next = { ...question, by, shareOf };
    // Areas are of the kind that makes the rows; those of another kind would be refused.
    const sameAreas = JSON.stringify(question.areas) === JSON.stringify(this.question.areas);
    if (this.#catalogue.kindOf(next) !== this.#catalogue.kindOf(this.question) && sameAreas) {
      next.areas = null;
      if (this.#asked.plan !== "" && this.#catalogue.kindOf(next) !== null) writeState({ plan: null, file: null }, true);
    }
    askQuestion(next, columns.length);
  }

  /**
   * @param {string} one
   * @param {string} other
   */
  #same(one, other) {
    return one === other || this.#catalogue.find(one)?.grouping === (this.#catalogue.find(other)?.grouping ?? null);
  }
}
