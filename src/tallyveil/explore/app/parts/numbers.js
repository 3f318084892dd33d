/** Write numbers for readers, in the grouping of the reader's language. */

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const signedWhole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0, signDisplay: "exceptZero" });
const oneDecimal = new Intl.NumberFormat(undefined, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const significant = new Intl.NumberFormat(undefined, { minimumSignificantDigits: 3, maximumSignificantDigits: 3 });
const percent = new Intl.NumberFormat(undefined, { style: "percent", maximumSignificantDigits: 3 });

/** What stands in the place of a number that does not exist. */
export const NONE = "–";

/**
 * A whole number, such as a count.
 * @param {number | null} value
 */
export function count(value) {
  return absent(value) ? NONE : whole.format(value + 0);
}

/**
 * A whole number with its sign.
 * @param {number | null} value
 */
export function difference(value) {
  return absent(value) ? NONE : signedWhole.format(value + 0);
}

/**
 * A number with one decimal, such as an estimate.
 * @param {number | null} value
 */
export function decimal(value) {
  return absent(value) ? NONE : oneDecimal.format(Math.abs(value) < 0.05 ? 0 : value);
}

/**
 * A number with three significant digits, such as a standard error.
 * @param {number | null} value
 */
export function rounded(value) {
  if (absent(value)) return NONE;
  return value === 0 ? "0" : significant.format(value);
}

/**
 * A share as a percentage.
 * @param {number | null} value
 */
export function share(value) {
  return absent(value) ? NONE : percent.format(value);
}

/**
 * A noun in the number that a count asks for.
 * @param {number} n
 * @param {string} one
 * @param {string} many
 */
export function counted(n, one, many) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/**
 * @param {number | null} value
 * @returns {value is null}
 */
function absent(value) {
  return value === null || Number.isNaN(value);
}
