/** One area of a site: a geounit or an entity. */

import { shown } from "../parts/shown.js";
import { kindTitle } from "./site.js";

/** @typedef {import("./site.js").Kind} Kind */

/**
 * @typedef {object} Area
 * @property {Kind} kind
 * @property {number} row its number in its kind
 * @property {string} geocode
 * @property {string | null} name
 * @property {number | null} parent
 * @property {number | null} firstChild
 * @property {number} nChildren
 * @property {number | null} firstFinest
 * @property {number} nFinest
 * @property {[number, number, number, number] | null} box west, south, east, north
 */

/**
 * An area as readers see it: its name, or its kind and geocode.
 * @param {Area} area
 */
export function areaTitle(area) {
  return area.name === null ? `${kindTitle(area.kind)} ${shown(area.geocode)}` : shown(area.name);
}

/**
 * The order of geocodes in the files: by code points, as Python compares texts.
 * @param {string} left
 * @param {string} right
 */
export function compareCodes(left, right) {
  const a = [...left];
  const b = [...right];
  for (let place = 0; place < Math.min(a.length, b.length); place++) {
    const order = /** @type {number} */ (a[place].codePointAt(0)) - /** @type {number} */ (b[place].codePointAt(0));
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

/**
 * An area out of the columns of its chunk.
 * @param {Kind} kind
 * @param {number} row
 * @param {Record<string, any[]>} chunk
 * @param {number} place
 * @param {string} [language] that in which areas are named
 * @returns {Area}
 */
export function areaOf(kind, row, chunk, place, language) {
  const box = ["west", "south", "east", "north"].map((side) => finite(chunk[side]?.[place]));
  return {
    kind,
    row,
    geocode: chunk.geocode[place],
    name: chunk[`name:${language}`]?.[place] ?? chunk.name?.[place] ?? null,
    parent: chunk.parent?.[place] ?? null,
    firstChild: chunk.first_child?.[place] ?? null,
    nChildren: chunk.n_children?.[place] ?? 0,
    firstFinest: chunk.first_finest?.[place] ?? null,
    nFinest: chunk.n_finest?.[place] ?? 0,
    box: box.includes(null) ? null : /** @type {[number, number, number, number]} */ (box),
  };
}

/**
 * A number of a file; null where it has none.
 * @param {unknown} value
 * @returns {number | null}
 */
export function finite(value) {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
