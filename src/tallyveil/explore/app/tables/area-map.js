/** A map on which areas are chosen. MapLibre is loaded with this module, when a reader asks for the map. */

import { element, refill } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { isDark, onTheme } from "../parts/theme.js";
import { areaTitle } from "../explorer/area.js";
import { cellsNote } from "../explorer/legend.js";
import { MapCanvas } from "../explorer/map-canvas.js";
import { mapColours } from "../explorer/palettes.js";
import { kindTitle } from "../explorer/site.js";

/** @typedef {import("../explorer/areas.js").Areas} Areas */
/** @typedef {import("../explorer/area.js").Area} Area */
/** @typedef {import("../explorer/site.js").Kind} Kind */

const CHOSEN = { class: 0 };
const OTHERS = { class: -1 };

export class AreaMap {
  #areas;
  #place;
  #canvas;
  #kinds = element("div", {});
  #reading = element("p", { class: "quiet", role: "status" });
  /** @type {Kind | null} */
  #kind = null;
  /** @type {number[]} */
  #rows = [];
  /** @type {(area: Area) => void} */
  #take = () => {};

  /**
   * @param {HTMLElement} place
   * @param {Areas} areas of a site with a map
   */
  constructor(place, areas) {
    this.#areas = areas;
    this.#place = place;
    document.head.append(element("link", { rel: "stylesheet", href: "vendor/maplibre-gl/dist/maplibre-gl.css" }));
    const canvas = element("div", { class: "map-canvas" });
    refill(place, this.#kinds, element("div", { class: "map-box" }, canvas), this.#reading, cellsNote(areas.site));
    this.#canvas = this.#begin(canvas);
    onTheme(() => this.#canvas?.colour([mapColours(isDark()).chosen]));
  }

  /** @param {HTMLElement} place */
  #begin(place) {
    const { map } = this.#areas.site;
    try {
      const canvas = new MapCanvas(place, /** @type {NonNullable<typeof map>} */ (map), null);
      const { libre } = canvas;
      libre.on("click", (event) => void this.#choose(event.point));
      libre.getCanvas().setAttribute("aria-label", say("Map. Arrow keys move it, plus and minus zoom, Enter chooses the area in the middle."));
      libre.getCanvas().addEventListener("keydown", (event) => {
        if (event.key === "Enter") void this.#choose(null);
      });
      libre.on("moveend", () => {
        if (libre.getCanvas() === document.activeElement) void this.#read();
      });
      libre.on("idle", () => this.#mark());
      return canvas;
    } catch (error) {
      if (!(error instanceof Error) || !/webgl/i.test(error.message)) throw error;
      refill(this.#place, element("p", { class: "note" }, say("This browser cannot draw the map, because it has no WebGL. Choose areas by their names, or by a file.")));
      return null;
    }
  }

  /**
   * @param {Kind[]} kinds whose areas can be chosen
   * @param {string[]} chosen geocodes
   * @param {(area: Area) => void} take called with an area that is chosen, or taken out
   */
  async show(kinds, chosen, take) {
    if (!this.#canvas) return;
    const { map } = this.#areas.site;
    await this.#canvas.ready;
    if (this.#kind === null) {
      this.#canvas.libre.resize(); // its place was hidden until now
      this.#canvas.fit(/** @type {NonNullable<typeof map>} */ (map).bounds);
    }
    this.#take = take;
    if (this.#kind === null || !kinds.includes(this.#kind)) [this.#kind] = kinds;
    const kind = this.#kind;
    const select = element("select", { id: "map-kind", "aria-label": say("Areas on the map"), onchange: () => {
      this.#kind = kinds[Number(select.value)];
      void this.show(kinds, chosen, take);
    } }, ...kinds.map((one, place) => element("option", { value: place, selected: one === kind }, kindTitle(one))));
    refill(this.#kinds, kinds.length > 1 ? select : null);
    for (const row of this.#rows) if (this.#canvas.kind !== null) this.#canvas.setState(this.#canvas.kind, row, OTHERS);
    this.#canvas.show(kind.number);
    this.#canvas.colour([mapColours(isDark()).chosen]);
    const found = await Promise.all(chosen.map((code) => this.#areas.find(kind.number, code)));
    this.#rows = found.flatMap((area) => area ? [area.row] : []);
    this.#mark();
    const tooFar = (this.#canvas.tiles(kind.number)?.minzoom ?? 0) > this.#canvas.libre.getZoom();
    this.#reading.textContent = tooFar ? say("Zoom in to see these areas.") : "";
  }

  #mark() {
    for (const row of this.#rows) if (this.#kind && this.#canvas) this.#canvas.setState(this.#kind.number, row, CHOSEN);
  }

  /** @param {{x: number, y: number} | null} point */
  async #choose(point) {
    const area = await this.#at(point);
    if (area) this.#take(area);
  }

  async #read() {
    const area = await this.#at(null);
    if (!area) return;
    const said = this.#rows.includes(area.row) ? say("In the middle: {area}. Enter takes it out.", { area: areaTitle(area) }) : say("In the middle: {area}. Enter chooses it.", { area: areaTitle(area) });
    this.#reading.textContent = said;
  }

  /**
   * @param {{x: number, y: number} | null} point
   * @returns {Promise<Area | null>}
   */
  async #at(point) {
    if (!this.#canvas || !this.#kind) return null;
    const { libre } = this.#canvas;
    if (!libre.loaded()) await libre.once("idle"); // a reader may be quicker than the tiles
    const row = this.#canvas.rowAt(point);
    return row === null ? null : this.#areas.area(this.#kind.number, row);
  }
}
