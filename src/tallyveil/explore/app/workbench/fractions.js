/** Exact fractions of whole numbers of any size. The shares and budgets of a release file are such fractions. */

/** @typedef {{ n: bigint, d: bigint }} Fraction  in lowest terms, d above 0 */

/**
 * @param {bigint} n
 * @param {bigint} [d]
 * @returns {Fraction}
 */
export function fraction(n, d = 1n) {
  const divisor = common(n < 0n ? -n : n, d);
  return { n: n / divisor, d: d / divisor };
}

/**
 * The number that a text such as "104/4099", "2.5" or "1e-10" stands for, or null if it stands for none. More than 60
 * characters, or an exponent beyond 100, stand for none.
 * @param {string} text
 * @returns {Fraction | null}
 */
export function parsed(text) {
  const found = /^\s*([+-]?\d+)(?:\s*\/\s*(\d+)|(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?)\s*$/.exec(text);
  if (!found || text.length > 60 && !found[2]) return null;
  const [, whole, below, decimals = "", power = "0"] = found;
  if (below !== undefined) return BigInt(below) === 0n ? null : fraction(BigInt(whole), BigInt(below));
  const exponent = Number(power) - decimals.length;
  if (Math.abs(exponent) > 100) return null;
  const digits = BigInt(whole + decimals);
  return exponent < 0 ? fraction(digits, 10n ** BigInt(-exponent)) : fraction(digits * 10n ** BigInt(exponent));
}

/**
 * As a release file has it.
 * @param {Fraction} value
 */
export function toText(value) {
  return value.d === 1n ? `${value.n}` : `${value.n}/${value.d}`;
}

/**
 * The nearest floating-point number.
 * @param {Fraction} value
 */
export function toNumber({ n, d }) {
  const size = n < 0n ? -n : n, shift = BigInt(Math.max(0, 80 - bits(size) + bits(d)));
  const quotient = Number((size << shift) / d) / 2 ** Number(shift);
  return n < 0n ? -quotient : quotient;
}

/**
 * @param {Fraction} a
 * @param {Fraction} b
 */
export const times = (a, b) => fraction(a.n * b.n, a.d * b.d);

/**
 * @param {Fraction} a
 * @param {Fraction} b  above 0
 */
export const over = (a, b) => fraction(a.n * b.d, a.d * b.n);

/**
 * @param {Fraction} a
 * @param {Fraction} b
 */
export const plus = (a, b) => fraction(a.n * b.d + b.n * a.d, a.d * b.d);

/**
 * @param {Fraction} a
 * @param {Fraction} b
 */
export const minus = (a, b) => fraction(a.n * b.d - b.n * a.d, a.d * b.d);

/**
 * Negative, zero or positive as a is below, at or above b.
 * @param {Fraction} a
 * @param {Fraction} b
 */
export const compare = (a, b) => Number(a.n * b.d > b.n * a.d) - Number(a.n * b.d < b.n * a.d);

/**
 * @param {bigint} a
 * @param {bigint} b
 */
function common(a, b) {
  while (b) [a, b] = [b, a % b];
  return a || 1n;
}

/** @param {bigint} value */
const bits = (value) => value.toString(2).length;
