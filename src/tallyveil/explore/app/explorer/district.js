/** The reader's own district: what is chosen, and its sum with a margin. */

import { csvText, download } from "../parts/csv.js";
import { element, refill } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { counted } from "../parts/numbers.js";
import { ANSWER_HEADINGS, answerRows } from "./answer-table.js";
import { rowsOfFile } from "./district-file.js";
import { union, without } from "./rows.js";
import { kindWords } from "./site.js";
import { sumView } from "./sum-view.js";

/** @typedef {import("./view.js").View} View */
/** @typedef {import("./areas.js").Areas} Areas */
/** @typedef {import("./area.js").Area} Area */
/** @typedef {import("./areas.js").Numbers} Numbers */

export class District {
  #place;
  #areas;
  #margins;
  #chosen;
  #asked = 0;
  #result = element("div", { "aria-live": "polite" });

  /**
   * @param {HTMLElement} place
   * @param {Areas} areas
   * @param {import("./margins.js").Margins} margins
   * @param {import("./chosen.js").Chosen} chosen
   */
  constructor(place, areas, margins, chosen) {
    this.#place = place;
    this.#areas = areas;
    this.#margins = margins;
    this.#chosen = chosen;
  }

  /**
   * Show the district.
   * @param {View} view
   */
  async show(view) {
    const { rows, lost, linked } = this.#chosen;
    const file = element("input", { type: "file", accept: ".csv,.txt,text/csv,text/plain", id: "district-file", onchange: () => this.#load(file) });
    const { one, many } = this.#words();
    this.#place.hidden = false;
    refill(this.#place,
      element("h2", { id: "district-title" }, say("Your own district")),
      element("p", { class: "quiet" }, this.#areas.site.map
        ? say("Put together any {areas} and get their sum with its exact margin. Add areas from their pages, choose or draw on the map, or load a file of their geocodes.", { areas: many })
        : say("Put together any {areas} and get their sum with its exact margin. Add areas from their pages, or load a file of their geocodes.", { areas: many })),
      lost ? element("p", { class: "note" }, say("The link does not carry its district, because it is too large. Load it from a file.")) : null,
      !linked && rows.length > 0
        ? element("p", { class: "note" }, say("This district is too large for a link. Download its {areas} to keep it.", { areas: many })) : null,
      element("p", { id: "district-size" }, rows.length === 0 ? say("No {area} is chosen.", { area: one }) : say("{areas} chosen.", { areas: counted(rows.length, one, many) })),
      element("div", { class: "row" },
        element("label", { class: "field" }, element("span", {}, say("Load a district file (CSV or text)")), file),
        ...(rows.length > 0 ? [
          element("button", { type: "button", onclick: () => this.#saveRows() }, say("Download its {areas}", { areas: many })),
          element("button", { type: "button", onclick: () => this.#chosen.choose(new Int32Array()) }, say("Clear")),
        ] : [])),
      this.#result);
    await this.#sum(view);
  }

  /**
   * A button that puts an area into the district or takes it out.
   * @param {Area} area
   * @returns {Promise<HTMLElement>}
   */
  async button(area) {
    const members = await this.#areas.members(area);
    const has = new Set(this.#chosen.rows);
    const all = members.length > 0 && members.every((row) => has.has(row));
    const change = () => this.#chosen.choose((all ? without : union)(this.#chosen.rows, members));
    return element("button", { type: "button", onclick: change }, all ? say("Take out of your district") : say("Add to your district"));
  }

  /** @param {View} view */
  async #sum(view) {
    const mine = ++this.#asked;
    const { rows } = this.#chosen;
    if (rows.length === 0) {
      refill(this.#result);
      return;
    }
    const { table, answer } = view;
    if (!table.kinds.includes(this.#areas.site.finest)) {
      refill(this.#result, element("p", { class: "note" }, say("The chosen table has no counts of {areas}.", { areas: this.#words().many })));
      return;
    }
    refill(this.#result, element("p", { class: "quiet" }, say("Computing …")));
    const numbers = await this.#margins.sums(rows, table);
    if (mine !== this.#asked) return;
    const shown = await sumView(this.#areas.site, table, answer, numbers, this.#margins.why(table));
    const save = element("button", { type: "button", onclick: () => this.#saveSum(view, numbers) }, say("Download the sum as CSV"));
    refill(this.#result, shown, element("div", { class: "actions" }, save));
  }

  /** @param {HTMLInputElement} input */
  async #load(input) {
    const [file] = input.files ?? [];
    if (!file) return;
    try {
      this.#chosen.choose(await rowsOfFile(this.#areas, await file.text()));
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      refill(this.#result, element("p", { class: "error", role: "alert" }, error.message));
    }
  }

  async #saveRows() {
    const { site } = this.#areas;
    const areas = await this.#areas.areas(site.finest, this.#chosen.rows);
    download(`${site.name}-district.csv`, csvText(["geocode"], areas.map((area) => [area.geocode])));
  }

  /**
   * @param {View} view
   * @param {Numbers} numbers
   */
  #saveSum(view, numbers) {
    const { site } = this.#areas;
    download(`${site.name}-district-${view.table.name}.csv`, csvText(ANSWER_HEADINGS, answerRows(view.table, numbers, [])));
  }

  #words() {
    return kindWords(this.#areas.site.kinds[this.#areas.site.finest]);
  }
}
