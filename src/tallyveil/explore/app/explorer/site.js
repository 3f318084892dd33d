/** What a site holds: `data/site.json`, read and typed. */

import { element } from "../parts/elements.js";
import { say, speak } from "../parts/language.js";
import { languageList } from "../parts/language-switch.js";
import { readState, writeState } from "../parts/link-state.js";
import { numbersIn } from "../parts/numbers.js";
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
 * @property {{one: string, other: string}} [label] what an area, and several of them, are called in the language of the page
 */

/**
 * @typedef {object} Table
 * @property {number} number
 * @property {string} name
 * @property {string} title
 * @property {string[]} answers
 * @property {string[]} [labels] what the answers are called in the language of the page
 * @property {{name: string, title: string, levels: string[], labels?: string[]}[]} factors the attributes that the table divides by
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
 * @property {Edition[]} [editions] the languages of the release's labels, that which is shown without a choice first
 * @property {string} [language] that of the page
 * @property {Table[]} tables
 * @property {{attributes: Attribute[], lacking: string | null}} asking what questions can be about, and why they have no answers, if so
 * @property {boolean} answers whether a program serves the site and answers questions; the file does not say it
 * @property {boolean} [counts] false for a site of measurements, which have estimates and no published counts
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

/**
 * @typedef {object} Edition how a release is called in a language, and what the site says of it
 * @property {string} tag the language
 * @property {string} language what it calls itself
 * @property {string | null} words the language of the page's own sentences; null for English
 * @property {string} name
 * @property {string} unit
 * @property {string[]} warnings
 * @property {string[]} guarantee
 * @property {string} signature
 * @property {string | null} no_intervals
 * @property {string | null} covers
 * @property {({one: string, other: string} | null)[]} kinds
 * @property {{title: string, answers: string[], factors: {title: string, levels: string[]}[]}[]} tables
 * @property {{title: string, levels: string[], recodes: {title: string, levels: string[]}[]}[]} attributes
 */
/** @typedef {{name: string, title: string, levels: string[], labels?: string[]}} Recode `labels` is what levels are called in the language of the page */
/** @typedef {Recode & {recodes: Recode[]}} Attribute */

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
  await speakFor(site);
  site.answers = answer.headers.get("Tallyveil-Answers") !== null;
  return site;
}

/**
 * Call everything as in the language that the address asks for, or in the first of the release.
 * @param {Site} site
 */
async function speakFor(site) {
  const editions = site.editions ?? [];
  const asked = readState().language;
  const edition = editions.find(({ tag }) => tag === asked) ?? editions[0];
  if (!edition) return;
  await speak(edition.tag, edition.words);
  numbersIn(edition.tag);
  const { tag, covers, kinds, tables, attributes, name, unit, warnings, guarantee, signature, no_intervals } = edition;
  Object.assign(site, { language: tag, name, unit, warnings, guarantee, signature, no_intervals });
  if (site.intervals && covers !== null) site.intervals.covers = covers;
  site.kinds.forEach((kind, place) => {
    kind.label = kinds[place] ?? undefined;
  });
  site.asking.attributes.forEach((attribute, place) => {
    const { title, levels, recodes } = attributes[place];
    Object.assign(attribute, { title, labels: levels });
    attribute.recodes.forEach((recode, which) => Object.assign(recode, { title: recodes[which].title, labels: recodes[which].levels }));
  });
  site.tables.forEach((table, place) => {
    const { title, answers, factors } = tables[place];
    Object.assign(table, { title, labels: answers });
    table.factors.forEach((factor, which) => Object.assign(factor, { title: factors[which].title, labels: factors[which].levels }));
  });
}

/**
 * A list of the languages of the release for the head of the page; null if it has one, or none.
 * @param {Site} site
 * @returns {HTMLElement | null}
 */
export function languageSwitch({ editions = [], language }) {
  if (editions.length < 2) return null;
  // Everything is said anew: the address keeps what is shown.
  return languageList(editions.map(({ tag, language: name }) => [tag, name]), language, (tag) => {
    writeState({ language: tag }, true);
    location.reload();
  });
}

/**
 * Links to the pages of a site, for the head of each.
 * @param {"areas" | "tables"} here
 */
export function pageLinks(here) {
  const pages = /** @type {const} */ ([["areas", "index.html", say("Areas")], ["tables", "tables.html", say("Tables")]]);
  const { language } = readState();
  const kept = language === undefined ? "" : `#${new URLSearchParams({ language })}`;
  return pages.map(([page, address, title]) => element("a", { href: address + kept, "aria-current": page === here ? "page" : null }, title));
}

/**
 * A geolevel or family as readers see it.
 * @param {Kind} kind
 */
export function kindTitle(kind) {
  return shown(capital(kind.label?.one ?? kind.name.replaceAll("_", " ")));
}

/**
 * What an area of a kind, and several of them, are called within a sentence.
 * @param {Kind} kind
 */
export function kindWords(kind) {
  if (kind.label) return { one: shown(kind.label.one), many: shown(kind.label.other) };
  return { one: kindTitle(kind).toLowerCase(), many: shown(kind.many.replaceAll("_", " ")) };
}

/**
 * What a table counts.
 * @param {Table} table
 */
export function tableTitle(table) {
  return shown(capital(table.title));
}

/** @param {string} text */
function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * An answer of a table as readers see it. Files have the label as it is.
 * @param {Table} table
 * @param {number} answer
 */
export function answerTitle(table, answer) {
  return levelTitle(table.labels?.[answer] ?? table.answers[answer]);
}

/**
 * @param {string} label
 */
export function levelTitle(label) {
  return shown(label.replaceAll("_", " "));
}

/**
 * Whether there are published counts, and not the estimates of measurements alone.
 * @param {Site} site
 */
export function hasCounts(site) {
  return site.counts !== false;
}

/**
 * What made the page, and from what.
 * @param {Site} site
 */
export function madeBy(site) {
  const program = shown(site.made_by);
  return hasCounts(site)
    ? say("Made by {program} from published counts. This page loads nothing from other sites.", { program })
    : say("Made by {program} from noisy measurements. This page loads nothing from other sites.", { program });
}

/**
 * The tables that have a kind of area.
 * @param {Site} site
 * @param {number} kind
 */
export function tablesOf(site, kind) {
  return site.tables.filter((table) => table.kinds.includes(kind));
}
