/** The map with its controls, legend, tip and table. MapLibre is loaded here, after the first card is shown. */

import { element, refill, svgElement } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { linkTo, readState, writeState } from "../parts/link-state.js";
import { isDark, onTheme } from "../parts/theme.js";
import { pagedTable } from "../parts/tables.js";
import { areaTitle } from "./area.js";
import { MapCanvas } from "./map-canvas.js";
import { mapControls } from "./map-controls.js";
import { kindForZoom } from "./map-kind.js";
import { chooseTools } from "./map-tools.js";
import { MapValues } from "./map-values.js";
import { cellsNote, showLegend } from "./legend.js";
import { classTexts, mapTitle, measured, MEASURES, measuresOf } from "./measures.js";
import { mapColours, sequential, sides } from "./palettes.js";
import { answerTitle, tableTitle } from "./site.js";
import { areaKey, goTo } from "./view.js";

/** @typedef {import("./view.js").View} View */
/** @typedef {import("./areas.js").Areas} Areas */
/** @typedef {import("./measures.js").Measure} Measure */

export class MapPanel {
  #areas;
  #canvas;
  #values;
  #tools;
  /** @type {View} */
  #view;
  #hovered = -1;
  #fresh = false; // whether tiles came since their areas were coloured
  #tip = element("div", { class: "map-tip", hidden: true });
  #legend = element("div", { class: "legend" });
  #controls = element("div", { class: "map-controls" });
  #table = element("div", {});
  #reading = element("p", { class: "map-reading", role: "status" });

  /**
   * @param {HTMLElement} place
   * @param {Areas} areas
   * @param {View} view
   * @param {import("./chosen.js").Chosen} chosen
   */
  constructor(place, areas, view, chosen) {
    const { site } = areas;
    this.#areas = areas;
    this.#view = view;
    const canvas = element("div", { class: "map-canvas" });
    const box = element("div", { class: "map-box" }, canvas, crosshair(), this.#tip);
    const details = element("details", { class: "map-table", ontoggle: () => this.#showTable() }, element("summary", {}, say("The map as a table")), this.#table);
    refill(place, this.#controls, box, this.#reading, this.#legend, cellsNote(site), details);
    place.hidden = false;
    this.#canvas = new MapCanvas(canvas, /** @type {NonNullable<typeof site.map>} */ (site.map), startOf(readState().map));
    this.#values = new MapValues(areas, this.#canvas);
    this.#tools = chooseTools(areas, this.#canvas, box, chosen);
    this.#listen();
    onTheme(() => this.#paint());
  }

  /** Wait until the first areas are coloured. */
  async begin() {
    await this.#canvas.ready;
    await this.show(this.#view, false);
    const { map } = readState();
    if (!map && this.#view.area.kind.number > 0) this.#goTo();
  }

  /**
   * Show another view.
   * @param {View} view
   * @param {boolean} moved whether the map goes to its area
   */
  async show(view, moved) {
    this.#view = view;
    await this.#change();
    this.#canvas.outline(view.area.kind.number, view.area.row);
    this.#tools.mark();
    if (moved) this.#goTo();
  }

  #goTo() {
    const { box } = this.#view.area;
    if (box) this.#canvas.fit(box);
  }

  /** Show what the address asks for: kind, measure, answer. */
  async #change() {
    const { site } = this.#areas;
    const state = readState();
    const { table, answer } = this.#view;
    const measures = measuresOf(site, table);
    const measure = measures.find((one) => one === state.measure) ?? measures[0];
    const asked = state.kind === undefined ? null : Number(state.kind);
    const automatic = asked === null || !this.#canvas.tiles(asked);
    const kind = automatic ? this.#automatic() : asked;
    const before = this.#values.shown;
    if (before?.kind !== kind || before.table !== table || before.answer !== answer || before.measure !== measure) {
      await this.#values.change({ kind, table, answer, measure });
      this.#paint();
      refill(this.#table);
    }
    refill(this.#controls, mapControls(site, { measures, measure, kind: automatic ? null : kind, shown: kind }, this.#tools.buttons()));
    const tooFar = (this.#canvas.tiles(kind)?.minzoom ?? 0) > this.#canvas.libre.getZoom();
    if (tooFar) this.#reading.textContent = say("Zoom in to see these areas.");
    else if (this.#reading.textContent === say("Zoom in to see these areas.")) this.#reading.textContent = "";
  }

  #automatic() {
    const bounds = this.#canvas.libre.getBounds();
    return kindForZoom(this.#areas.site, this.#canvas.libre.getZoom(), [bounds.getWest(), bounds.getSouth(), bounds.getEast(), bounds.getNorth()]);
  }

  #paint() {
    const { shown, limits } = this.#values;
    if (!shown) return;
    const texts = limits ? classTexts(limits, shown.measure) : [];
    const colours = shown.measure === "outside" ? sides(isDark()) : sequential(texts.length, isDark());
    this.#canvas.colour(colours);
    const what = shown.table.answers.length > 1 ? `${tableTitle(shown.table)}: ${answerTitle(shown.table, shown.answer)}` : tableTitle(shown.table);
    showLegend(this.#legend, `${mapTitle(shown.measure, this.#areas.site.kinds[shown.kind])}. ${what}`, colours.slice(0, texts.length), texts, mapColours(isDark()).empty);
  }

  #listen() {
    const { libre } = this.#canvas;
    libre.on("sourcedata", (event) => {
      if ("tile" in event && event.tile) this.#fresh = true;
    });
    libre.on("idle", () => void this.#settle());
    libre.on("moveend", () => {
      const { lat, lng } = libre.getCenter();
      writeState({ map: `${libre.getZoom().toFixed(2)}/${lat.toFixed(5)}/${lng.toFixed(5)}` }, true);
      void this.#change();
    });
    libre.on("mousemove", (event) => void (libre.isMoving() || this.#hover(event.point)));
    libre.on("mouseout", () => void this.#hover(null));
    libre.on("click", (event) => void this.#take(event.point));
    libre.getCanvas().setAttribute("aria-label", say("Map. Arrow keys move it, plus and minus zoom, Enter opens the area in the middle."));
    libre.getCanvas().addEventListener("keydown", (event) => {
      if (event.key === "Enter") void this.#take(null);
    });
    libre.on("moveend", () => {
      if (libre.getCanvas() === document.activeElement) void this.#read();
    });
  }

  /** After the map has drawn its tiles: read what came into view, and colour it. */
  async #settle() {
    await this.#values.fill();
    if (!this.#fresh) return;
    this.#fresh = false;
    this.#values.repeat();
    this.#tools.mark();
  }

  /** @param {{x: number, y: number} | null} point */
  async #hover(point) {
    const row = point ? this.#canvas.rowAt(point) ?? -1 : -1;
    const { shown } = this.#values;
    if (!shown) return;
    if (row !== this.#hovered) {
      if (this.#hovered >= 0) this.#canvas.setState(shown.kind, this.#hovered, { hover: false });
      if (row >= 0) this.#canvas.setState(shown.kind, row, { hover: true });
      this.#hovered = row;
      if (row < 0) this.#tip.hidden = true;
      else {
        const area = await this.#areas.area(shown.kind, row);
        if (this.#hovered !== row) return;
        refill(this.#tip, element("strong", {}, areaTitle(area)), this.#said(row));
        this.#tip.hidden = false;
      }
    }
    if (point) place(this.#tip, point, this.#canvas.libre.getCanvas().getBoundingClientRect());
  }

  /** Say what is in the middle of the map, for readers who move it by keys. */
  async #read() {
    const row = this.#canvas.rowAt(null);
    const { shown } = this.#values;
    if (row === null || !shown) return;
    const area = await this.#areas.area(shown.kind, row);
    this.#reading.textContent = say("In the middle: {area}, {value}", { area: areaTitle(area), value: this.#said(row) });
  }

  /** @param {number} row */
  #said(row) {
    const { shown } = this.#values;
    if (!shown) return "";
    return `${say(MEASURES[shown.measure].title)}: ${MEASURES[shown.measure].text(this.#values.value(row))}`;
  }

  /** @param {{x: number, y: number} | null} point */
  async #take(point) {
    if (!this.#canvas.libre.loaded()) await this.#canvas.libre.once("idle"); // a reader may be quicker than the tiles
    const row = this.#canvas.rowAt(point);
    const { kind } = this.#canvas;
    if (row === null || kind === null) return;
    if (await this.#tools.take(kind, row)) return;
    goTo(await this.#areas.area(kind, row));
  }

  async #showTable() {
    const { shown } = this.#values;
    if (!shown || this.#table.childElementCount > 0) return;
    const { kinds } = this.#areas.site;
    const size = kinds[shown.kind].chunk;
    refill(this.#table, await pagedTable({
      caption: mapTitle(shown.measure, kinds[shown.kind]),
      n: kinds[shown.kind].n,
      rows: async (start, stop) => {
        const areas = await this.#areas.range(shown.kind, start, stop);
        return Promise.all(areas.map(async (area) => {
          const values = await measured(this.#areas, shown.kind, Math.floor(area.row / size), shown.table, shown.answer, shown.measure);
          return { area, value: values[area.row % size] };
        }));
      },
      columns: [
        { heading: say("Area"), head: true, show: ({ area }) => element("a", { href: linkTo({ area: areaKey(area) }) }, areaTitle(area)) },
        { heading: say(MEASURES[shown.measure].title), numeric: true, show: ({ value }) => MEASURES[shown.measure].text(value) },
      ],
    }));
  }
}

/**
 * Zoom, latitude and longitude of an address.
 * @param {string | undefined} text
 * @returns {[number, number, number] | null}
 */
function startOf(text) {
  const parts = (text ?? "").split("/").map(Number);
  const [zoom, lat, lon] = parts;
  const fine = parts.length === 3 && zoom >= 0 && zoom <= 22 && Math.abs(lat) <= 85 && Math.abs(lon) <= 180;
  return fine ? [zoom, lat, lon] : null;
}

/**
 * @param {HTMLElement} tip
 * @param {{x: number, y: number}} point
 * @param {DOMRect} box
 */
function place(tip, point, box) {
  const left = point.x > box.width / 2;
  tip.style.left = left ? "auto" : `${point.x + 14}px`;
  tip.style.right = left ? `${box.width - point.x + 14}px` : "auto";
  tip.style.top = `${Math.min(point.y + 10, box.height - 70)}px`;
}

/** A cross in the middle, for readers who use keys. */
function crosshair() {
  return svgElement("svg", { class: "cross", viewBox: "0 0 22 22", "aria-hidden": "true" }, svgElement("path", { d: "M11 2v18M2 11h18" }));
}
