/** Read a district from a file with a column of finest geocodes, as `tallyveil intervals --district` reads. */

import { parseCsv } from "../parts/csv.js";
import { say } from "../parts/language.js";
import { shown } from "../parts/shown.js";

/** @typedef {import("./areas.js").Areas} Areas */

const NAMED = 3; // unknown geocodes that the message names
const BLOCK_NAME = /^(geocode|blockid|geoid|geoid_tabblock)(_?[1-9]0)?$/i; // as in tallyveil.geography.tables

/**
 * The rows of the geocodes of a file.
 * @param {Areas} areas
 * @param {string} text
 * @returns {Promise<Int32Array>}
 */
export async function rowsOfFile(areas, text) {
  const { finest, kinds } = areas.site;
  const codes = codesOfFile(text, kinds[finest].name);
  const rows = await rowsOfCodes(areas, codes);
  const unknown = codes.filter((code) => !rows.has(code));
  if (unknown.length > 0) {
    const some = unknown.slice(0, NAMED).map(shown).join(", ");
    throw new Error(say("The file has {number} geocodes that are not in the release, such as {some}. " +
      "It needs geocodes of {kind}. Read the column as text: leading zeros belong to geocodes.", { number: unknown.length, some, kind: kinds[finest].name }));
  }
  return Int32Array.from(rows.values()).sort();
}

/**
 * The geocodes of a file, each once.
 * @param {string} text
 * @param {string} kind  name of the finest geounits
 * @returns {string[]}
 */
export function codesOfFile(text, kind) {
  const [headings = [], ...lines] = tableOf(text);
  const column = geocodeColumn(headings, kind);
  refusePlan(headings, lines, column);
  return [...new Set(lines.map((line) => (line[column] ?? "").replace(/^'(?=[=+\-@])/, "")))];
}

/**
 * The fields of every line. They have commas between them, or "|" as in block assignment files.
 * @param {string} text
 * @returns {string[][]}
 */
function tableOf(text) {
  const header = text.slice(0, text.search(/[\r\n]|$/));
  if (header.includes(",") || !header.includes("|")) return parseCsv(text);
  return text.replace(/^\uFEFF/, "").split(/\r\n|\n|\r/).filter((line) => line !== "").map((line) => line.split("|"));
}

/**
 * @param {string[]} headings
 * @param {string} kind  name of the finest geounits
 * @returns {number}
 */
function geocodeColumn(headings, kind) {
  if (headings.includes("geocode")) return headings.indexOf("geocode");
  const usual = headings.filter((name) => BLOCK_NAME.test(name));
  if (usual.length === 1) return headings.indexOf(usual[0]);
  throw new Error(usual.length === 0
    ? say("The file has no column \"geocode\" in its first line. It needs one, with geocodes of {kind}. BLOCKID, GEOID and GEOID20 are understood, too.", { kind })
    : say("The file has several columns of geocodes: {columns}. Call the one with geocodes of {kind} \"geocode\".", { columns: usual.map(shown).join(", "), kind }));
}

/**
 * Refuse a file whose other columns differ from row to row, or are blank: it may name several districts.
 * @param {string[]} headings
 * @param {string[][]} lines
 * @param {number} column
 */
function refusePlan(headings, lines, column) {
  const differing = headings.filter((name, place) => place !== column && name !== "" && // one without a name numbers the rows
    lines.some((line) => !line[place]?.trim() || line[place].trim() !== lines[0][place].trim()));
  if (differing.length === 0) return;
  throw new Error(say("The file has the column {column}, which differs from row to row or is blank, so it may name several districts. " +
    "Load a file of the geocodes of one district alone. `tallyveil intervals --district` shows a row for each district of such a file.", { column: shown(differing[0]) }));
}

/**
 * @param {Areas} areas
 * @param {string[]} codes
 * @returns {Promise<Map<string, number>>}
 */
async function rowsOfCodes(areas, codes) {
  const { finest, kinds } = areas.site;
  const wanted = new Set(codes);
  const chunks = new Set(codes.flatMap((code) => areas.chunksWith(finest, code)));
  /** @type {Map<string, number>} */
  const rows = new Map();
  await Promise.all([...chunks].map(async (chunk) => {
    const found = await areas.geocodes(finest, chunk);
    found.forEach((code, place) => {
      if (wanted.has(code)) rows.set(code, chunk * kinds[finest].chunk + place);
    });
  }));
  return rows;
}
