/**
 * Shares that always sum to exactly 1, and that a reader moves one at a time.
 *
 * A moved share is a whole number of steps of 1/100,000. The others keep their ratios as far as whole numbers of steps
 * allow, and each keeps at least one step, because a share above 0 says that something is measured. Until a share is
 * moved, all shares are the fractions of the release file.
 */

import { fraction, toNumber } from "./fractions.js";

/** @typedef {import("./fractions.js").Fraction} Fraction */

/** Number of steps in the whole. */
export const STEPS = 100_000;

export class Shares {
  /**
   * @param {string[]} names
   * @param {Fraction[]} given  they sum to 1
   */
  constructor(names, given) {
    this.names = names;
    this.given = given;
    this.exact = given;
    this.wishes = given.map(toNumber);
  }

  /** Go back to the shares of the file. */
  reset() {
    this.exact = this.given;
    this.wishes = this.given.map(toNumber);
  }

  /** Whether the shares are those of the file. */
  get isGiven() {
    return this.exact === this.given;
  }

  /** Least and greatest number of steps of one share. */
  get limits() {
    return { least: 1, most: STEPS - (this.names.length - 1) };
  }

  /**
   * A share in steps, which need not be whole before a share is moved.
   * @param {number} place
   */
  steps(place) {
    return toNumber(this.exact[place]) * STEPS;
  }

  /**
   * Give a share a number of steps. The others share the rest in the ratios that they had.
   * @param {number} place
   * @param {number} steps
   */
  move(place, steps) {
    if (this.names.length === 1) return;
    const { least, most } = this.limits;
    const own = Math.min(most, Math.max(least, Math.round(steps)));
    const others = this.wishes.reduce((sum, wish, i) => (i === place ? sum : sum + wish), 0);
    this.wishes = this.wishes.map((wish, i) => (i === place ? own / STEPS : (wish / others) * (1 - own / STEPS)));
    const rest = divided(this.wishes.filter((_, i) => i !== place), STEPS - own);
    const whole = [...rest.slice(0, place), own, ...rest.slice(place)];
    this.exact = whole.map((n) => fraction(BigInt(n), BigInt(STEPS)));
  }
}

/**
 * Whole numbers of at least 1 with a given sum, nearly in the ratios of some wishes: largest remainders.
 * @param {number[]} wishes
 * @param {number} sum  at least the number of wishes
 * @returns {number[]}
 */
export function divided(wishes, sum) {
  const total = wishes.reduce((one, other) => one + other, 0);
  const wanted = wishes.map((wish) => Math.max(1, (wish / total) * sum));
  const found = wanted.map(Math.floor);
  const order = wanted.map((value, i) => ({ i, rest: value - found[i] })).sort((a, b) => b.rest - a.rest || a.i - b.i);
  let left = sum - found.reduce((one, other) => one + other, 0);
  for (let k = 0; left > 0; k = (k + 1) % order.length, left--) found[order[k].i] += 1;
  while (left < 0) { // shares that were raised to 1 are paid for by the largest one
    found[found.indexOf(Math.max(...found))] -= 1;
    left += 1;
  }
  return found;
}
