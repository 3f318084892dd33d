/** Write tables as CSV in UTF-8, and hand files to the reader. */

import { phrase, say } from "./language.js";

/** @typedef {string | number | null} Cell  null is an empty field */

const FORMULA = /^[=+\-@\t\r]/;
const QUOTED = /[",\r\n]/;

/** What a reader should know about the texts of a file. */
export const CSV_NOTE = phrase(
  "A text that begins with =, +, - or @ has an apostrophe in front, so that a spreadsheet shows it and does not compute it.");

/**
 * The text of a CSV file. Numbers are written with a decimal point and without grouping.
 * @param {string[]} headings
 * @param {Iterable<Cell[]>} rows
 * @returns {string}
 */
export function csvText(headings, rows) {
  const lines = [headings, ...rows].map((row) => row.map(field).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

/**
 * Hand a file to the reader.
 * @param {string} name
 * @param {string | Uint8Array<ArrayBuffer>} content
 * @param {string} [type]
 */
export function download(name, content, type = "text/csv;charset=utf-8") {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name.replace(/[^\p{L}\p{N}._-]+/gu, "_").slice(0, 100);
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/**
 * The rows of a CSV text. Fields may be quoted; a byte order mark is left out.
 * @param {string} text
 * @returns {string[][]}
 * @throws {Error} a quotation mark stands inside a field, or is not closed: the rest would be lost
 */
export function parseCsv(text) {
  /** @type {string[][]} */
  const rows = [];
  /** @type {string[]} */
  let row = [];
  let read = 0;
  const all = `\n${text.replace(/^\uFEFF/, "")}`; // so that a separator is before every field
  for (const [whole, separator, quoted, plain] of all.matchAll(PARSED)) {
    read += whole.length;
    if (separator !== ",") {
      rows.push(row);
      row = [];
    }
    row.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
  }
  rows.push(row);
  if (read < all.length) {
    throw new Error(say("The file is no CSV: in its row {number}, a quotation mark is not closed, or stands inside a field. " +
      "Close it, or write the file again as CSV with commas.", { number: rows.length - 1 }));
  }
  return rows.slice(1).filter((fields) => fields.length > 1 || fields[0] !== "");
}

/** A separator (a comma, an end of line), then a quoted or a plain field; each directly after the one before. */
const PARSED = /(,|\r\n|\n|\r)(?:"([^"]*(?:""[^"]*)*)"|([^",\r\n]*))/gy;

/**
 * @param {Cell} value
 * @returns {string}
 */
function field(value) {
  if (value === null) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const text = FORMULA.test(value) ? `'${value}` : value;
  return QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
