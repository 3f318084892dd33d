/** Expected errors of one area that a reader chooses: a geounit or an entity. */

import { element, refill } from "../../parts/elements.js";
import { count } from "../../parts/numbers.js";
import { say } from "../../parts/language.js";
import { shown } from "../../parts/shown.js";
import { joined, split } from "../address.js";
import { change, deviation } from "../text.js";

/** @typedef {import("../state.js").GivenSpine} GivenSpine */
/** @typedef {import("../estimates.js").Area} Area */

const MOST_LISTED = 500;
const SUGGESTED = 20;

export class AreaPanel {
  /**
   * @param {HTMLElement} place
   * @param {GivenSpine} spine
   * @param {string[]} tables  queries by number
   * @param {() => void} changed
   * @param {() => void} noted  what is shown has changed, and no number
   */
  constructor(place, spine, tables, changed, noted) {
    this.spine = spine;
    this.tables = tables;
    this.changed = changed;
    /** @type {Area | null} */
    this.area = null;
    this.title = "";
    /** @type {string | null} the kind and code of the area, for the address */
    this.named = null;
    const levels = spine.shown.filter((level) => spine.codes[level]);
    this.kinds = [
      ...levels.map((level) => ({ name: spine.levels[level], codes: spine.codes[level] ?? [], level, family: -1 })),
      ...spine.families.map((family, i) => ({ name: family.name, codes: family.codes, level: 0, family: i })),
    ];
    const labelled = tables.filter((name) => spine.labels[name]);
    if (!this.kinds.length || !labelled.length) return;
    place.hidden = false;
    this.list = element("select", { id: "area-kind", onchange: () => this.showCodes() },
      ...this.kinds.map((kind, i) => element("option", { value: i }, shown(kind.name))));
    this.query = element("select", { id: "area-query", onchange: () => { this.showRows(); noted(); } },
      ...labelled.map((name) => element("option", { value: name }, shown(name))));
    this.codePlace = element("label", { class: "field" });
    this.rows = element("div", { "aria-live": "polite" });
    refill(place, element("h2", { id: "area-title" }, say("One area")),
      element("div", { class: "row" }, element("label", { class: "field" }, say("Kind"), this.list), this.codePlace,
        element("label", { class: "field" }, say("Query"), this.query)), this.rows);
    this.list.value = String(Math.min(1, this.kinds.length - 1)); // counts of the root are often exact
    this.showCodes();
    this.first = this.link;
  }

  /** The area and the query as a part of the address; null if they are as at first. */
  get part() {
    return this.link === this.first ? null : this.link;
  }

  get link() {
    return this.named === null || !this.query ? null : `${this.named}/${joined(this.query.value)}`;
  }

  /**
   * Show what a part of the address says.
   * @param {string | null} part  null for what is shown at first
   * @returns {boolean} whether there is such an area
   */
  take(part) {
    const text = part ?? this.first ?? null;
    if (text === this.link) return true;
    if (text === null) {
      this.area = this.named = null;
      refill(/** @type {Element} */ (this.rows));
      return true;
    }
    const [name, code, query] = split(text) ?? [], number = this.kinds.findIndex((kind) => kind.name === name);
    const row = this.kinds[number]?.codes.indexOf(code) ?? -1;
    if (row < 0 || !this.list || !this.query || ![...this.query.options].some((option) => option.value === query)) return false;
    this.list.value = String(number);
    this.query.value = query;
    this.showCodes(row);
    return true;
  }

  /**
   * A list of the codes of the kind, or a field with suggestions if they are many.
   * @param {number | null} [row]  the code that is chosen
   */
  showCodes(row = null) {
    const kind = this.kinds[Number(this.list?.value)];
    if (!this.codePlace) return;
    if (kind.codes.length <= MOST_LISTED) {
      const list = element("select", { id: "area-code", onchange: () => this.choose(kind, Number(list.value)) },
        ...kind.codes.map((code, i) => element("option", { value: i }, shown(code))));
      refill(this.codePlace, say("Code"), list);
      list.value = String(row ?? 0);
      this.choose(kind, row ?? 0);
      return;
    }
    const suggestions = element("datalist", { id: "area-codes" });
    const field = element("input", { id: "area-code", list: "area-codes", autocomplete: "off", placeholder: kind.codes[0],
      oninput: () => {
        const near = kind.codes.filter((code) => code.startsWith(field.value)).slice(0, SUGGESTED);
        refill(suggestions, ...near.map((code) => element("option", { value: code })));
      },
      onchange: () => {
        const found = kind.codes.indexOf(field.value.trim());
        field.setAttribute("aria-invalid", String(found < 0));
        if (found >= 0) this.choose(kind, found);
      } });
    refill(this.codePlace, say("Code (one of {number})", { number: count(kind.codes.length) }), field, suggestions);
    if (row === null) return;
    field.value = kind.codes[row];
    this.choose(kind, row);
  }

  /**
   * @param {{ name: string, codes: string[], level: number, family: number }} kind
   * @param {number} row
   */
  choose(kind, row) {
    this.named = joined(kind.name, kind.codes[row]);
    this.title = `${shown(kind.name)} ${shown(kind.codes[row])}`;
    this.area = kind.family < 0 ? { level: kind.level, row }
      : { level: 0, members: Int32Array.from(this.spine.families[kind.family].members[row]) };
    this.changed();
  }

  /**
   * @param {Record<number, Float64Array>} now  standard deviations of every answer, by number of the query
   * @param {{ name: string, area: Map<string, Float64Array> | null } | null} before  null if there is nothing to compare with
   */
  show(now, before) {
    this.last = { now, before: before?.area ?? null, beforeName: before?.name ?? "" };
    this.showRows();
  }

  showRows() {
    if (!this.last || !this.query || !this.rows) return;
    const { now, before, beforeName } = this.last;
    const name = this.query.value, table = this.tables.indexOf(name), labels = this.spine.labels[name], values = now[table];
    if (!values) {
      refill(this.rows, element("p", { class: "quiet" }, say("There are no estimates of this query.")));
      return;
    }
    const was = before?.get(name), compared = was?.length === values.length ? was : null;
    const headings = [say("now"), ...(compared ? [shown(beforeName), say("change")] : [])];
    const caption = say("Standard deviation of the estimates of {query} in {area}", { query: shown(name), area: this.title });
    refill(this.rows, element("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": caption },
      element("table", {}, element("caption", {}, caption),
        element("thead", {}, element("tr", {}, element("th", { scope: "col" }, say("answer")),
          ...headings.map((text) => element("th", { scope: "col", class: "number" }, text)))),
        element("tbody", {}, ...labels.map((label, i) => element("tr", {}, element("th", { scope: "row" }, shown(label)),
          ...numbers(values[i], compared?.[i]).map((text) => element("td", { class: "number" }, text))))))),
    before && !compared ? element("p", { class: "quiet" }, say("There are no estimates of this query in {name}.", { name: shown(beforeName) })) : null);
  }
}

/**
 * @param {number} now
 * @param {number | undefined} before
 */
function numbers(now, before) {
  if (before === undefined) return [deviation(now)];
  const own = deviation(now), was = deviation(before);
  return [own, was, change(before, now) || (own === was ? say("same") : "–")];
}
