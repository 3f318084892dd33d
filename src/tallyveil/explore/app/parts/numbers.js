/** Write numbers for readers, in the grouping of the reader's language. */

import { isOne } from "./language.js";

let formats = formatsIn(undefined);

/**
 * Write numbers as a language does; without this call, as the reader's browser does.
 * @param {string} tag
 */
export function numbersIn(tag) {
  formats = formatsIn(tag);
}

/** @param {string | undefined} tag */
function formatsIn(tag) {
  return {
    whole: new Intl.NumberFormat(tag, { maximumFractionDigits: 0 }),
    signedWhole: new Intl.NumberFormat(tag, { maximumFractionDigits: 0, signDisplay: "exceptZero" }),
    oneDecimal: new Intl.NumberFormat(tag, { minimumFractionDigits: 1, maximumFractionDigits: 1 }),
    significant: new Intl.NumberFormat(tag, { minimumSignificantDigits: 3, maximumSignificantDigits: 3 }),
    percent: new Intl.NumberFormat(tag, { style: "percent", maximumSignificantDigits: 3 }),
  };
}

/** What stands in the place of a number that does not exist. */
export const NONE = "–";

/**
 * A whole number, such as a count.
 * @param {number | null} value
 */
export function count(value) {
  return absent(value) ? NONE : formats.whole.format(value + 0);
}

/**
 * A whole number with its sign.
 * @param {number | null} value
 */
export function difference(value) {
  return absent(value) ? NONE : formats.signedWhole.format(value + 0);
}

/**
 * A number with one decimal, such as an estimate.
 * @param {number | null} value
 */
export function decimal(value) {
  return absent(value) ? NONE : formats.oneDecimal.format(Math.abs(value) < 0.05 ? 0 : value);
}

/**
 * A number with three significant digits, such as a standard error.
 * @param {number | null} value
 */
export function rounded(value) {
  if (absent(value)) return NONE;
  return value === 0 ? "0" : formats.significant.format(value);
}

/**
 * A share as a percentage.
 * @param {number | null} value
 */
export function share(value) {
  return absent(value) ? NONE : formats.percent.format(value);
}

/**
 * A noun in the number that a count asks for.
 * @param {number} n
 * @param {string} one
 * @param {string} many
 */
export function counted(n, one, many) {
  return `${count(n)} ${isOne(n) ? one : many}`;
}

/**
 * @param {number | null} value
 * @returns {value is null}
 */
function absent(value) {
  return value === null || Number.isNaN(value);
}
