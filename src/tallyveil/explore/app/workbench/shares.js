/**
 * Shares that always sum to exactly 1, and that a reader moves one at a time.
 *
 * A moved share is a whole number of steps of 1/100,000. The others keep their ratios as far as whole numbers of steps
 * allow, and each keeps at least one step, because a share above 0 says that something is measured. Until a share is
 * moved, all shares are the fractions of the release file.
 *
 * A locked share stays exactly as it is. If the locked shares leave no whole number of steps, the largest of the shares
 * that give way has the rest, so that the sum is exactly 1.
 */

import { compare, fraction, minus, plus, toNumber } from "./fractions.js";

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
    /** @type {Set<number>} places of the shares that stay as they are while others move */
    this.locked = new Set();
  }

  /** Go back to the shares of the file. Locks stay. */
  takeGiven() {
    this.exact = this.given;
    this.wishes = this.given.map(toNumber);
  }

  /** Go back to the shares of the file, without locks. */
  reset() {
    this.takeGiven();
    this.locked.clear();
  }

  /**
   * Take other shares.
   * @param {Fraction[]} shares
   * @returns {boolean} whether they are shares of this group: one for each name, none too small, with the sum 1
   */
  take(shares) {
    const least = [...this.given, fraction(1n, BigInt(STEPS))].reduce((one, other) => (compare(other, one) < 0 ? other : one));
    if (shares.length !== this.names.length || shares.some((share) => compare(share, least) < 0)) return false;
    if (compare(sumOf(shares), fraction(1n)) !== 0) return false;
    this.exact = shares.every((share, i) => compare(share, this.given[i]) === 0) ? this.given : shares;
    this.wishes = shares.map(toNumber);
    return true;
  }

  /**
   * Keep a share as it is while others move, or let it move again.
   * @param {number} place
   */
  toggleLock(place) {
    if (!this.locked.delete(place)) this.locked.add(place);
  }

  /** Whether the shares are those of the file. */
  get isGiven() {
    return this.exact === this.given;
  }

  /**
   * Places of the shares that give way when a share moves.
   * @param {number} place
   */
  giving(place) {
    return this.names.map((_, i) => i).filter((i) => i !== place && !this.locked.has(i));
  }

  /** What the locked shares leave. */
  get free() {
    return minus(fraction(1n), sumOf([...this.locked].map((i) => this.exact[i])));
  }

  /**
   * Greatest number of steps of a share; 0 if it cannot move.
   * @param {number} place
   */
  most(place) {
    const giving = this.giving(place);
    if (this.locked.has(place) || !giving.length) return 0;
    return Math.max(0, wholeSteps(this.free) - giving.length);
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
    const most = this.most(place), giving = this.giving(place), { free } = this;
    if (most === 0) return;
    const own = Math.min(most, Math.max(1, Math.round(steps)));
    const others = giving.reduce((sum, i) => sum + this.wishes[i], 0), left = toNumber(free) - own / STEPS;
    this.wishes = this.wishes.map((wish, i) => (i === place ? own / STEPS : giving.includes(i) ? (wish / others) * left : wish));
    const parts = divided(giving.map((i) => this.wishes[i]), wholeSteps(free) - own);
    const exact = [...this.exact];
    exact[place] = inSteps(own);
    giving.forEach((i, k) => { exact[i] = inSteps(parts[k]); });
    const largest = giving[parts.indexOf(Math.max(...parts))];
    exact[largest] = plus(exact[largest], minus(free, inSteps(wholeSteps(free))));
    this.exact = exact;
  }
}

/** @param {number} n  whole number of steps */
function inSteps(n) {
  return fraction(BigInt(n), BigInt(STEPS));
}

/**
 * The largest whole number of steps in a share.
 * @param {Fraction} share
 */
function wholeSteps({ n, d }) {
  return Number((n * BigInt(STEPS)) / d);
}

/** @param {Fraction[]} shares */
function sumOf(shares) {
  return shares.reduce(plus, fraction(0n));
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
