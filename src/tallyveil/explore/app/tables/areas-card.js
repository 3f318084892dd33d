/** Which areas the table is about: all of a kind, or some, chosen by list, by name, on the map, or by a file. */

import { parseCsv } from "../parts/csv.js";
import { element, isOpen, refill } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { count, counted } from "../parts/numbers.js";
import { shown } from "../parts/shown.js";
import { areaTitle } from "../explorer/area.js";
import { searchBox } from "../explorer/search-box.js";
import { kindWords } from "../explorer/site.js";
import { fieldHead } from "./fields.js";
import { givePlan, Problem } from "./server.js";

/** @typedef {import("../explorer/areas.js").Areas} Areas */
/** @typedef {import("../explorer/area.js").Area} Area */
/** @typedef {import("./asked.js").Asked} Asked */
/** @typedef {import("./catalogue.js").Catalogue} Catalogue */
/** @typedef {import("./choices.js").Choices} Choices */

const MOST_LISTED = 150; // areas that are ticked in a list
const MOST_CHIPS = 12;
const MOST_OF_FILE = 3000; // areas of a file that a question names, as long as an address may be

export class AreasCard {
  #areas;
  #index;
  #catalogue;
  #answers;
  #mapOpen = false;
  #problem = "";
  /** @type {import("./area-map.js").AreaMap | null} */
  #map = null;
  #mapPlace = element("div", { class: "area-map" });

  /**
   * @param {Areas} areas
   * @param {import("../explorer/search-index.js").SearchIndex} index
   * @param {Catalogue} catalogue
   * @param {boolean} answers whether a program takes files
   */
  constructor(areas, index, catalogue, answers) {
    this.#areas = areas;
    this.#index = index;
    this.#catalogue = catalogue;
    this.#answers = answers;
  }

  /**
   * @param {Choices} choices
   * @param {Asked} asked
   * @param {() => void} again
   */
  async show(choices, asked, again) {
    const kind = this.#catalogue.kindOf(choices.question);
    const chosen = choices.question.areas ?? [];
    const { minus } = choices.question;
    const named = chosen.length > 0 || minus.length > 0 || asked.plan !== "";
    // Before the rest: what is open is asked when nothing is waited for any more.
    const list = kind !== null && kind.n <= MOST_LISTED ? await this.#list(kind, choices) : null;
    const problem = this.#problem;
    this.#problem = "";
    return element("div", { class: "field-card panel" },
      ...fieldHead(this.#catalogue.fields[0], choices, again),
      element("p", { class: "quiet" }, this.#says(kind, chosen, asked)),
      chips("in", chosen, (area) => choices.removeArea(area), say("Take out")),
      asked.plan === "" ? null : element("button", { type: "button", id: "leave-file", onclick: () => choices.leavePlan() }, say("Leave the file {file}", { file: shown(asked.file) })),
      minus.length === 0 ? null : element("p", { class: "quiet" }, say("Subtracted:")),
      chips("minus", minus, (area) => choices.removeSubtracted(area), say("Do not subtract")),
      problem === "" ? null : element("p", { class: "error", role: "alert" }, shown(problem)),
      element("details", { class: "filter", id: "areas-chosen", open: isOpen("areas-chosen") || named },
        element("summary", { id: "areas-choose" }, say("Choose areas")),
        searchBox({
          id: "add-area", label: say("Add an area"), placeholder: say("Name or geocode"),
          find: (text) => this.#index.find(text, kind?.number ?? null), choose: (area) => choices.addArea(area.geocode),
        }),
        list,
        ...this.#onMap(kind, choices),
        this.#answers ? this.#file(choices, kind) : null,
        chosen.length > 0 ? element("button", { type: "button", id: "all-areas", onclick: () => choices.choose([]) }, say("All areas")) : null));
  }

  /**
   * @param {import("../explorer/site.js").Kind | null} kind
   * @param {string[]} chosen
   * @param {Asked} asked
   */
  #says(kind, chosen, asked) {
    if (asked.plan !== "") return say("The areas of the file {file}, each by itself.", { file: shown(asked.file) });
    if (kind === null) return chosen.length === 0 ? say("The whole release.") : say("{areas}, counted together.", { areas: counted(chosen.length, say("area"), say("areas")) });
    const { one, many } = kindWords(kind);
    return chosen.length === 0 ? say("All {areas}: {number}.", { areas: many, number: count(kind.n) }) : say("{areas} of {number}.", { areas: counted(chosen.length, one, many), number: count(kind.n) });
  }

  /**
   * @param {import("../explorer/site.js").Kind} kind
   * @param {Choices} choices
   */
  async #list(kind, choices) {
    const areas = await this.#areas.range(kind.number, 0, kind.n);
    const chosen = new Set(choices.question.areas ?? []);
    return element("div", { class: "ticks", role: "group", "aria-label": say("Areas of the table: {areas}", { areas: kindWords(kind).many }) }, ...areas.map((area) =>
      element("label", { for: `area-${area.row}` }, element("input", {
        type: "checkbox", id: `area-${area.row}`, checked: chosen.has(area.geocode),
        onchange: (event) => event.target.checked ? choices.addArea(area.geocode) : choices.removeArea(area.geocode),
      }), areaTitle(area))));
  }

  /**
   * @param {import("../explorer/site.js").Kind | null} kind
   * @param {Choices} choices
   */
  #onMap(kind, choices) {
    const { map } = this.#areas.site;
    if (!map) return [];
    const kinds = map.tiles.map((tiles) => this.#areas.site.kinds[tiles.kind]).filter((one) => one.n > 1 && (kind === null || one === kind));
    if (kinds.length === 0) return [];
    const change = () => {
      this.#mapOpen = !this.#mapOpen;
      button.setAttribute("aria-expanded", String(this.#mapOpen));
      button.textContent = this.#mapOpen ? say("Close the map") : say("Choose on the map");
      void this.#showMap(kinds, choices);
    };
    const button = element("button", { type: "button", id: "on-map", "aria-expanded": String(this.#mapOpen), onclick: change }, this.#mapOpen ? say("Close the map") : say("Choose on the map"));
    void this.#showMap(kinds, choices);
    return [button, this.#mapPlace];
  }

  /**
   * @param {import("../explorer/site.js").Kind[]} kinds
   * @param {Choices} choices
   */
  async #showMap(kinds, choices) {
    this.#mapPlace.hidden = !this.#mapOpen;
    if (!this.#mapOpen) return;
    if (this.#map === null) {
      const { AreaMap } = await import("./area-map.js");
      this.#map ??= new AreaMap(this.#mapPlace, this.#areas);
    }
    await this.#map.show(kinds, choices.question.areas ?? [], ({ geocode }) => {
      if (choices.question.areas?.includes(geocode)) choices.removeArea(geocode);
      else choices.addArea(geocode);
    });
  }

  /**
   * @param {Choices} choices
   * @param {import("../explorer/site.js").Kind | null} kind
   */
  #file(choices, kind) {
    const input = element("input", {
      type: "file", id: "areas-file", accept: ".csv,.txt,.parquet,text/csv,text/plain", onchange: async () => {
        const [file] = input.files ?? [];
        if (!file) return;
        try {
          const codes = await this.#codesOf(file, kind);
          if (codes) choices.choose(codes);
          else choices.choosePlan((await givePlan(file)).plan, file.name);
        } catch (error) {
          if (!(error instanceof Problem)) throw error;
          this.#problem = error.message;
          document.dispatchEvent(new Event("statechange"));
        }
      },
    });
    return element("label", { class: "field" },
      element("span", {}, say("From a file: codes of areas, or codes and the group of each")), input);
  }

  /**
   * The areas of a file that has nothing but codes of one kind; null if it is a plan, which the program reads.
   * @param {File} file
   * @param {import("../explorer/site.js").Kind | null} kind of the rows
   * @returns {Promise<string[] | null>}
   */
  async #codesOf(file, kind) {
    const { site } = this.#areas;
    if (file.name.endsWith(".parquet") || file.size > MOST_OF_FILE * 100) return null;
    const [headings, ...lines] = rowsOf(await file.text()) ?? [];
    if (headings?.length !== 1 || lines.length === 0 || lines.length > MOST_OF_FILE) return null;
    const codes = [...new Set(lines.map(([code]) => code))];
    const kinds = kind === null ? site.kinds : [kind];
    for (const { number } of kinds) if (await this.#areas.find(number, codes[0])) return codes;
    return null;
  }
}

/**
 * The rows of a text; null if it is no CSV with commas: the program reads others, and says what is wrong.
 * @param {string} text
 */
function rowsOf(text) {
  try {
    return parseCsv(text);
  } catch {
    return null;
  }
}

/**
 * Areas that were chosen, as chips that go away when they are pressed.
 * @param {string} id
 * @param {string[]} areas
 * @param {(area: string) => void} remove
 * @param {string} words
 */
function chips(id, areas, remove, words) {
  if (areas.length === 0) return null;
  const list = element("ul", { class: "chips" });
  refill(list, ...areas.slice(0, MOST_CHIPS).map((area, place) => element("li", { class: "chip" }, element("span", {}, shown(area)),
    element("button", { type: "button", id: `${id}-${place}`, "aria-label": `${words} ${shown(area)}`, onclick: () => remove(area) }, "×"))),
  areas.length > MOST_CHIPS ? element("li", { class: "quiet" }, say("and {number} more", { number: count(areas.length - MOST_CHIPS) })) : null);
  return list;
}
