/** What a map can show of an answer, and the classes that it is shown in. */

import { phrase, say } from "../parts/language.js";
import { count, rounded, share } from "../parts/numbers.js";
import { hasCounts, kindWords } from "./site.js";

/** @typedef {import("./areas.js").Areas} Areas */
/** @typedef {import("./site.js").Site} Site */
/** @typedef {import("./site.js").Table} Table */
/** @typedef {"published" | "estimate" | "share" | "standard_error" | "relative_standard_error" | "outside"} Measure */
/** @typedef {{least: number, most: number, limits: number[], zero?: boolean}} Limits a class goes from its limit up to the next; `zero`: the first class is zero alone */

/** @type {Record<Measure, {title: string, text: (value: number | null) => string}>} */
export const MEASURES = {
  published: { title: phrase("Published count"), text: count },
  estimate: { title: phrase("Unbiased estimate"), text: rounded },
  share: { title: phrase("Share of the total"), text: share },
  standard_error: { title: phrase("Standard error"), text: rounded },
  relative_standard_error: { title: phrase("Standard error, relative to the count"), text: share },
  outside: { title: phrase("Published count outside its interval"), text: (value) => say(OUTSIDE[(value ?? 0) + 1]) },
};

/** What the values -1, 0 and 1 of the last measure mean. */
export const OUTSIDE = [phrase("Below its interval"), phrase("Inside its interval"), phrase("Above its interval")];

/**
 * The measures that a table has.
 * @param {Site} site
 * @param {Table} table
 * @returns {Measure[]}
 */
export function measuresOf(site, table) {
  if (!hasCounts(site)) return ["estimate", "standard_error", "relative_standard_error"];
  const withIntervals = site.intervals !== null && table.intervals;
  return [
    "published",
    ...(site.share_of !== null && site.share_of !== table.number ? [/** @type {const} */ ("share")] : []),
    ...(withIntervals ? /** @type {const} */ (["standard_error", "relative_standard_error", "outside"]) : []),
  ];
}

/**
 * The values of a measure for all areas of a chunk.
 * @param {Areas} areas
 * @param {number} kind
 * @param {number} chunk
 * @param {Table} table
 * @param {number} answer
 * @param {Measure} measure
 * @returns {Promise<(number | null)[]>}
 */
export async function measured(areas, kind, chunk, table, answer, measure) {
  const wanted = {
    published: "p", estimate: "e", share: "p", standard_error: "s", relative_standard_error: hasCounts(areas.site) ? "sp" : "se", outside: "plu",
  }[measure];
  const found = await areas.columns(kind, chunk, table.number, [...wanted].map((letter) => `${letter}${answer}`));
  const columns = found.map((column) => /** @type {(number | null)[] | null} */ (column) ?? []);
  if (measure === "share") {
    const [whole] = await areas.columns(kind, chunk, /** @type {number} */ (areas.site.share_of), ["p0"]);
    return columns[0].map((value, place) => ratio(value, /** @type {number | null} */ (whole?.[place] ?? null)));
  }
  if (measure === "relative_standard_error") return columns[0].map((value, place) => ratio(value, columns[1][place]));
  if (measure === "outside") return columns[0].map((value, place) => outside(value, columns[1][place], columns[2][place]));
  return columns[0];
}

/**
 * The limits of the classes of an answer over all areas of a kind; null if there is nothing to show.
 * @param {number} kind
 * @param {Table} table
 * @param {number} answer
 * @param {Measure} measure
 * @returns {Promise<Limits | null>}
 */
export async function limitsOf(kind, table, answer, measure) {
  if (measure === "outside") return { least: -1, most: 1, limits: [0, 1] };
  const got = await fetch(`data/areas/${kind}/classes-${table.number}.json`);
  if (!got.ok) throw new Error(say("The classes of the map cannot be read: the server answered {status}.", { status: got.status }));
  const { measures } = await got.json();
  return measures[measure]?.[answer] ?? null;
}

/**
 * The class of a value; null for no value.
 * @param {Limits} limits
 * @param {number | null} value
 */
export function classOf({ limits }, value) {
  return value === null || !Number.isFinite(value) ? null : limits.filter((limit) => limit <= value).length;
}

/**
 * The texts of the classes, in order.
 * @param {Limits} limits
 * @param {Measure} measure
 * @returns {string[]}
 */
export function classTexts({ least, most, limits, zero }, measure) {
  const { text } = MEASURES[measure];
  if (measure === "outside") return OUTSIDE.map((text) => say(text));
  const whole = measure === "published";
  const starts = [least, ...limits];
  return starts.map((start, place) => {
    if (zero && place === 0) return text(0);
    const last = place + 1 === starts.length;
    const end = last ? most : whole ? limits[place] - 1 : limits[place];
    if (start === end) return text(start);
    return last || whole ? say("{first} to {last}", { first: text(start), last: text(end) }) : say("{first} to under {last}", { first: text(start), last: text(end) });
  });
}

/**
 * What a map of a measure shows, in words.
 * @param {Measure} measure
 * @param {import("./site.js").Kind} kind
 */
export function mapTitle(measure, kind) {
  return say("{measure}, by {kind}", { measure: say(MEASURES[measure].title), kind: kindWords(kind).one });
}

/**
 * @param {number | null} above
 * @param {number | null} below
 */
function ratio(above, below) {
  return above === null || below === null || below <= 0 ? null : above / below;
}

/**
 * @param {number | null} value
 * @param {number | null} low
 * @param {number | null} high
 */
function outside(value, low, high) {
  if (value === null || low === null) return null;
  if (value < low) return -1;
  return high !== null && value > high ? 1 : 0;
}
