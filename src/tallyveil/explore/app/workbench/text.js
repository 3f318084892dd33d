/** Numbers with the digits that `tallyveil plan` prints, in the signs of the language, so that a reader finds them in both. */

import { figure, say } from "../parts/language.js";

/**
 * An upper bound, rounded up: three decimals, or four significant digits if it is below 1.
 * @param {number} value
 */
export function atMost(value) {
  if (!Number.isFinite(value)) return say("infinity");
  if (value === 0) return "0";
  if (value >= 1) return figure((Math.ceil(value * 1000) / 1000).toFixed(3));
  const unit = 10 ** (Math.floor(Math.log10(value)) - 3);
  const text = (Math.ceil(value / unit) * unit).toPrecision(4);
  return figure(text.includes("e") ? text : text.replace(/\.?0+$/, ""));
}

/**
 * A share of 1, rounded up to tenths of a per cent.
 * @param {number} value
 */
export function percentAtMost(value) {
  return figure(`${(Math.min(1000, Math.ceil(value * 1000)) / 10).toFixed(1)} %`);
}

/**
 * A standard deviation with two decimals and grouped digits; "exact" below 10^-6, as for what is known exactly.
 * @param {number} value
 */
export function deviation(value) {
  if (!Number.isFinite(value)) return say("not determined");
  return value < 1e-6 ? say("exact") : twoDecimals(value);
}

/**
 * Two decimals and grouped digits. Of two equally near texts, that with an even last digit, as in Python.
 * @param {number} value
 */
export function twoDecimals(value) {
  const hundredths = value * 100, low = Math.floor(hundredths);
  const isTie = hundredths - low === 0.5 && Number.isInteger(value * 8); // other decimals of a float are never a tie
  const text = isTie ? ((low % 2 === 0 ? low : low + 1) / 100).toFixed(2) : value.toFixed(2);
  return figure(text.replace(/\B(?=(\d{3})+(?=\.))/g, ","));
}

/**
 * A change from one number to another in per cent, with its sign; empty if there is none to speak of.
 * @param {number} from
 * @param {number} to
 */
export function change(from, to) {
  if (!Number.isFinite(from) || !Number.isFinite(to) || from < 1e-6 || to < 1e-6) return "";
  const percent = (to / from - 1) * 100;
  if (Math.abs(percent) < 0.05) return "";
  const text = Math.abs(percent) < 10 ? Math.abs(percent).toFixed(1) : Math.abs(percent).toFixed(0);
  return figure(`${percent > 0 ? "+" : "−"}${text} %`);
}
