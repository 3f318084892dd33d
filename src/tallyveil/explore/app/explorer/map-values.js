/** The classes of the areas in view: read chunk by chunk, as the reader moves. */

import { classOf, limitsOf, measured } from "./measures.js";

/** @typedef {import("./measures.js").Measure} Measure */
/** @typedef {import("./measures.js").Limits} Limits */
/** @typedef {{kind: number, table: import("./site.js").Table, answer: number, measure: Measure}} Shown */

export class MapValues {
  /** @type {Map<number, (number | null)[]>} */
  #chunks = new Map();
  /** @type {Set<number>} */
  #asked = new Set();
  #areas;
  #canvas;
  /** @type {Shown | null} */
  shown = null;
  /** @type {Limits | null} */
  limits = null;

  /**
   * @param {import("./areas.js").Areas} areas
   * @param {import("./map-canvas.js").MapCanvas} canvas
   */
  constructor(areas, canvas) {
    this.#areas = areas;
    this.#canvas = canvas;
  }

  /**
   * Show another kind, answer or measure; areas in view get their values at once.
   * @param {Shown} shown
   */
  async change(shown) {
    const limits = await limitsOf(shown.kind, shown.table, shown.answer, shown.measure);
    const before = this.shown?.kind;
    this.shown = shown;
    this.limits = limits;
    const stale = before === shown.kind ? [...this.#chunks.keys()] : [];
    this.#chunks.clear();
    this.#asked.clear();
    this.#canvas.show(shown.kind);
    await Promise.all(stale.map((chunk) => this.#load(chunk)));
    await this.fill();
  }

  /** Read the values of areas that came into view. */
  async fill() {
    if (!this.shown) return;
    const size = this.#areas.site.kinds[this.shown.kind].chunk;
    const chunks = new Set(this.#canvas.rowsInView().map((row) => Math.floor(row / size)));
    await Promise.all([...chunks].filter((chunk) => !this.#asked.has(chunk)).map((chunk) => this.#load(chunk)));
  }

  /** Say the classes of the areas in view again: a tile that is loaded just now may have missed them. */
  repeat() {
    if (!this.shown) return;
    const size = this.#areas.site.kinds[this.shown.kind].chunk;
    for (const row of this.#canvas.rowsInView()) {
      if (this.#chunks.has(Math.floor(row / size))) this.#say(this.shown.kind, row, this.value(row));
    }
  }

  /**
   * The value of an area, if it was read.
   * @param {number} row
   * @returns {number | null}
   */
  value(row) {
    const size = this.shown ? this.#areas.site.kinds[this.shown.kind].chunk : 1;
    return this.#chunks.get(Math.floor(row / size))?.[row % size] ?? null;
  }

  /** @param {number} chunk */
  async #load(chunk) {
    const { shown } = this;
    if (!shown) return;
    this.#asked.add(chunk);
    const values = await measured(this.#areas, shown.kind, chunk, shown.table, shown.answer, shown.measure);
    if (this.shown !== shown) return; // the reader has gone on to something else
    this.#chunks.set(chunk, values);
    const first = chunk * this.#areas.site.kinds[shown.kind].chunk;
    values.forEach((value, place) => this.#say(shown.kind, first + place, value));
  }

  /**
   * @param {number} kind
   * @param {number} row
   * @param {number | null} value
   */
  #say(kind, row, value) {
    this.#canvas.setState(kind, row, { class: this.limits ? classOf(this.limits, value) ?? -1 : -1 });
  }
}
