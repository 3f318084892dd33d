/** The map itself: MapLibre with one source for each kind of area. No background map, no fonts, nothing from elsewhere. */

import { Map as LibreMap, NavigationControl, ScaleControl } from "../../vendor/maplibre-gl/dist/maplibre-gl.mjs";
import { isDark } from "../parts/theme.js";
import { mapColours } from "./palettes.js";

/** @typedef {import("./site.js").Site} Site */
/** @typedef {import("./site.js").TileSet} TileSet */
/** @typedef {[number, number, number, number]} Box */

const LAYER = "areas"; // the one layer of every tile

export class MapCanvas {
  /** @type {number | null} */
  #shown = null;
  #tiles;

  /**
   * @param {HTMLElement} place
   * @param {NonNullable<Site["map"]>} map
   * @param {[number, number, number] | null} start zoom, latitude, longitude; null for the whole area
   */
  constructor(place, map, start) {
    this.#tiles = map.tiles;
    this.libre = new LibreMap({
      container: place,
      style: { version: 8, sources: {}, layers: [{ id: "ground", type: "background", paint: { "background-color": mapColours(isDark()).ground } }] },
      ...(start ? { zoom: start[0], center: [start[2], start[1]] } : { bounds: map.bounds, fitBoundsOptions: { padding: 24 } }),
      attributionControl: false,
      dragRotate: false,
      pitchWithRotate: false,
      touchPitch: false,
      fadeDuration: 0,
      maxZoom: 19,
    });
    this.libre.touchZoomRotate.disableRotation();
    this.libre.keyboard.disableRotation();
    this.libre.addControl(new NavigationControl({ showCompass: false }), "top-right");
    this.libre.addControl(new ScaleControl(), "bottom-left");
    this.ready = new Promise((done) => this.libre.once("load", done));
  }

  /** @param {number} kind */
  tiles(kind) {
    return this.#tiles.find((one) => one.kind === kind) ?? null;
  }

  /**
   * Show one kind of area.
   * @param {number} kind
   */
  show(kind) {
    if (this.#shown === kind) return;
    this.#addLayers(kind);
    if (this.#shown !== null) for (const layer of ["fill", "line"]) this.libre.setLayoutProperty(`${layer}-${this.#shown}`, "visibility", "none");
    for (const layer of ["fill", "line"]) this.libre.setLayoutProperty(`${layer}-${kind}`, "visibility", "visible");
    this.#shown = kind;
  }

  /** The kind that is shown. */
  get kind() {
    return this.#shown;
  }

  /**
   * Colour the areas of the kind that is shown by their classes.
   * @param {string[]} colours
   */
  colour(colours) {
    const { empty, line, strong, ground, chosen } = mapColours(isDark());
    this.libre.setPaintProperty("ground", "background-color", ground);
    const matched = colours.flatMap((colour, place) => [place, colour]);
    this.libre.setPaintProperty(`fill-${this.#shown}`, "fill-color",
      /** @type {any} */ (["match", ["coalesce", ["feature-state", "class"], -1], ...matched, empty]));
    this.libre.setPaintProperty(`line-${this.#shown}`, "line-color", underPointer(strong, line));
    if (this.libre.getLayer("current")) this.libre.setPaintProperty("current", "line-color", strong);
    if (this.libre.getLayer("chosen")) this.libre.setPaintProperty("chosen", "line-color", chosen);
  }

  /**
   * Say of areas which class they are in, or whether they are chosen or under the pointer.
   * @param {number} kind
   * @param {number} row
   * @param {Record<string, unknown>} state
   */
  setState(kind, row, state) {
    this.libre.setFeatureState({ source: `kind-${kind}`, sourceLayer: LAYER, id: row }, state);
  }

  /**
   * The areas of the kind that is shown in the tiles that are loaded.
   * @returns {number[]}
   */
  rowsInView() {
    if (this.#shown === null) return [];
    const features = this.libre.querySourceFeatures(`kind-${this.#shown}`, { sourceLayer: LAYER });
    return [...new Set(features.map((feature) => Number(feature.id)))];
  }

  /**
   * The area at a point of the map, or at its middle.
   * @param {{x: number, y: number} | null} point
   * @returns {number | null}
   */
  rowAt(point) {
    const { width, height } = this.libre.getCanvas().getBoundingClientRect();
    const at = point ?? { x: width / 2, y: height / 2 };
    const [found] = this.libre.queryRenderedFeatures([at.x, at.y], { layers: [`fill-${this.#shown}`] });
    return found ? Number(found.id) : null;
  }

  /**
   * Draw a strong line around one area.
   * @param {number} kind
   * @param {number} row
   */
  outline(kind, row) {
    if (this.libre.getLayer("current")) this.libre.removeLayer("current");
    if (!this.tiles(kind)) return;
    this.#addSource(kind);
    this.libre.addLayer({
      id: "current", type: "line", source: `kind-${kind}`, "source-layer": LAYER, filter: ["==", ["id"], row],
      paint: { "line-color": mapColours(isDark()).strong, "line-width": 2.5 },
    });
  }

  /**
   * Show which finest areas are chosen; their state says so. Without chosen areas, nothing is drawn for them.
   * @param {number} finest
   * @param {boolean} any whether areas are chosen
   */
  showChosen(finest, any) {
    if (this.libre.getLayer("chosen")) {
      this.libre.setLayoutProperty("chosen", "visibility", any ? "visible" : "none");
      return;
    }
    if (!any || !this.tiles(finest)) return;
    this.#addSource(finest);
    this.libre.addLayer({
      id: "chosen", type: "line", source: `kind-${finest}`, "source-layer": LAYER,
      paint: {
        "line-color": mapColours(isDark()).chosen,
        "line-width": ["case", ["boolean", ["feature-state", "chosen"], false], 1.5, 0],
      },
    });
  }

  /**
   * Move to a box.
   * @param {Box} box
   */
  fit([west, south, east, north]) {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.libre.fitBounds([west, south, east, north], { padding: 40, maxZoom: 15, animate: !still, duration: 500 });
  }

  /** @param {number} kind */
  #addSource(kind) {
    const id = `kind-${kind}`;
    const tiles = this.tiles(kind);
    if (!tiles || this.libre.getSource(id)) return;
    const { href } = new URL(`data/tiles/${kind}/`, document.baseURI);
    this.libre.addSource(id, {
      type: "vector", tiles: [`${href}{z}/{x}/{y}.pbf`], minzoom: tiles.minzoom, maxzoom: tiles.maxzoom, bounds: tiles.bounds,
    });
  }

  /** @param {number} kind */
  #addLayers(kind) {
    if (this.libre.getLayer(`fill-${kind}`)) return;
    this.#addSource(kind);
    const { empty, line, strong } = mapColours(isDark());
    const below = ["chosen", "current"].find((layer) => this.libre.getLayer(layer));
    const own = { source: `kind-${kind}`, "source-layer": LAYER };
    // Each layer draws every corner of the tiles again, which is slow without a graphics card: so there are two, and no edges of fills.
    this.libre.addLayer({ id: `fill-${kind}`, type: "fill", ...own, paint: { "fill-color": empty, "fill-antialias": false } }, below);
    this.libre.addLayer({
      id: `line-${kind}`, type: "line", ...own,
      paint: {
        "line-color": underPointer(strong, line),
        "line-width": ["interpolate", ["linear"], ["zoom"], 8, underPointer(2, 0.3), 14, underPointer(2.5, 1)],
      },
    }, below);
  }
}

/**
 * A value for the area under the pointer, and one for the others.
 * @template {string | number} Value
 * @param {Value} own
 * @param {Value} others
 * @returns {any} an expression of MapLibre
 */
function underPointer(own, others) {
  return ["case", ["boolean", ["feature-state", "hover"], false], own, others];
}
