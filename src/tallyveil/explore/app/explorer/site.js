/** What a site holds: `data/site.json`, read and typed. */

import { element } from "../parts/elements.js";
import { shown } from "../parts/shown.js";

/**
 * @typedef {object} Kind a geolevel, or a family of entities
 * @property {number} number
 * @property {string} name
 * @property {string} many what several of them are called, in lower case
 * @property {"geolevel" | "family"} type
 * @property {number} n how many areas there are
 * @property {number} chunk areas of a file
 * @property {number | null} parent
 * @property {string[]} first_geocodes the first geocode of each file
 * @property {boolean} named whether areas have names
 * @property {boolean} sorted whether geocodes rise, so that the file of an area follows from its geocode
 * @property {boolean} overlaps whether a finest geounit can be in several entities
 */

/**
 * @typedef {object} Table
 * @property {number} number
 * @property {string} name
 * @property {string} title
 * @property {string[]} answers
 * @property {{name: string, title: string, levels: string[]}[]} factors the attributes that the table divides by
 * @property {string[][] | null} attributes the level of every attribute, for each answer; null for a table of one total
 * @property {number[]} kinds
 * @property {boolean} intervals
 */

/**
 * @typedef {object} Site
 * @property {number} format
 * @property {string} name
 * @property {string} unit
 * @property {string} made_by
 * @property {string} run
 * @property {string[]} warnings
 * @property {string[]} guarantee
 * @property {string} signature who signed the release when the site was made
 * @property {Kind[]} kinds
 * @property {number} finest
 * @property {Table[]} tables
 * @property {{attributes: Attribute[], lacking: string | null}} asking what questions can be about, and why they have no answers, if so
 * @property {boolean} answers whether a program serves the site and answers questions; the file does not say it
 * @property {number | null} share_of the table whose count is the whole of a share
 * @property {{level: number, covers: string} | null} intervals
 * @property {string | null} no_intervals why there are none
 * @property {{bounds: [number, number, number, number], tiles: TileSet[], made_from: "polygons" | "points"} | null} map
 * @property {string | null} no_map why there is none
 * @property {{file: string} | null} district what the standard errors of sums follow from
 * @property {string | null} no_district why there is none
 * @property {{name: string, warnings: string[], signature: string, tables: boolean[], kinds: number[]} | null} compared another
 *   release of the same tables; `tables` says of each table whether that release has intervals of it, and `kinds` which kinds of areas both have
 */

/** @typedef {{name: string, title: string, levels: string[], recodes: {name: string, title: string, levels: string[]}[]}} Attribute */

/** @typedef {{kind: number, minzoom: number, maxzoom: number, bounds: [number, number, number, number]}} TileSet */

const FORMAT = 1;

/**
 * Read the site's description.
 * @returns {Promise<Site>}
 */
export async function loadSite() {
  const answer = await fetch("data/site.json");
  if (!answer.ok) {
    throw new Error(`data/site.json cannot be read: the server answered ${answer.status}. Serve the folder of the site, ` +
      "for example with: python -m http.server");
  }
  /** @type {Site} */
  const site = await answer.json();
  if (site.format !== FORMAT) {
    throw new Error(`data/site.json has format ${site.format}, and this page reads format ${FORMAT}. Make the site again.`);
  }
  site.answers = answer.headers.get("Tallyveil-Answers") !== null;
  return site;
}

/**
 * Links to the pages of a site, for the head of each.
 * @param {"areas" | "tables"} here
 */
export function pageLinks(here) {
  const pages = /** @type {const} */ ([["areas", "index.html", "Areas"], ["tables", "tables.html", "Tables"]]);
  return pages.map(([page, address, title]) => element("a", { href: address, "aria-current": page === here ? "page" : null }, title));
}

/**
 * A geolevel or family as readers see it.
 * @param {Kind} kind
 */
export function kindTitle(kind) {
  const words = kind.name.replaceAll("_", " ");
  return shown(words.charAt(0).toUpperCase() + words.slice(1));
}

/**
 * What an area of a kind, and several of them, are called within a sentence.
 * @param {Kind} kind
 */
export function kindWords(kind) {
  return { one: kindTitle(kind).toLowerCase(), many: shown(kind.many.replaceAll("_", " ")) };
}

/**
 * What a table counts.
 * @param {Table} table
 */
export function tableTitle(table) {
  return shown(table.title.charAt(0).toUpperCase() + table.title.slice(1));
}

/**
 * An answer of a table as readers see it. Files have the label as it is.
 * @param {Table} table
 * @param {number} answer
 */
export function answerTitle(table, answer) {
  return levelTitle(table.answers[answer]);
}

/**
 * @param {string} label
 */
export function levelTitle(label) {
  return shown(label.replaceAll("_", " "));
}

/**
 * The tables that have a kind of area.
 * @param {Site} site
 * @param {number} kind
 */
export function tablesOf(site, kind) {
  return site.tables.filter((table) => table.kinds.includes(kind));
}
