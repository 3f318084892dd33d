/** Read a district from a file: CSV with a column `geocode` of finest geocodes, as `tallyveil intervals --district` reads. */

import { parseCsv } from "../parts/csv.js";
import { shown } from "../parts/shown.js";

/** @typedef {import("./areas.js").Areas} Areas */

const NAMED = 3; // unknown geocodes that the message names

/**
 * The rows of the geocodes of a file.
 * @param {Areas} areas
 * @param {string} text
 * @returns {Promise<Int32Array>}
 */
export async function rowsOfFile(areas, text) {
  const [headings, ...lines] = parseCsv(text);
  const column = headings?.indexOf("geocode") ?? -1;
  const { finest, kinds } = areas.site;
  if (column < 0) {
    throw new Error(`The file has no column "geocode" in its first line. It needs one, with geocodes of ${kinds[finest].name}.`);
  }
  const codes = [...new Set(lines.map((line) => (line[column] ?? "").replace(/^'(?=[=+\-@])/, "")))];
  const rows = await rowsOfCodes(areas, codes);
  const unknown = codes.filter((code) => !rows.has(code));
  if (unknown.length > 0) {
    const some = unknown.slice(0, NAMED).map(shown).join(", ");
    throw new Error(`The file has ${unknown.length} geocodes that are not in the release, such as ${some}. ` +
      `It needs geocodes of ${kinds[finest].name}. Read the column as text: leading zeros belong to geocodes.`);
  }
  return Int32Array.from(rows.values()).sort();
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
