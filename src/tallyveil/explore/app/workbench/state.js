/** A plan that a reader changes: its budget and its shares, all exact, and what follows from them by formula. */

import { compare, fraction, over, parsed, plus, times, toNumber } from "./fractions.js";
import { marginOf, varianceOf } from "./laws.js";
import { Shares } from "./shares.js";

/** @typedef {import("./fractions.js").Fraction} Fraction */
/** @typedef {import("./laws.js").Mechanism} Mechanism */

/**
 * @typedef {object} GivenQuery
 * @property {string} name
 * @property {string} share
 * @property {number} answers  number of answers
 * @property {number} sensitivity  number of answers in which one record may count
 */

/**
 * The file `plan.json` that `tallyveil plan --workbench` writes.
 * @typedef {object} GivenPlan
 * @property {string} name
 * @property {Record<string, { unit: { one: string, many: string }, guess: [string, string, string] }>} words  by language
 * @property {{ one: string, many: string }} unit  the words of the reader's language, and so is `guess`
 * @property {"bounded" | "unbounded"} neighbours
 * @property {Mechanism} mechanism
 * @property {string} delta
 * @property {string} declared
 * @property {string} total
 * @property {boolean} bypasses
 * @property {[string, string, string]} guess  what is supposed; what follows, with PERCENTAGE in it; what follows from NOTHING on
 * @property {string[]} invariants
 * @property {{ name: string, share: string, queries: GivenQuery[] }[]} geolevels
 * @property {(string | { slot: string })[]} template
 * @property {GivenSpine | null} [spine]
 * @property {string | null} [why]  why there are no least-squares estimates
 */

/**
 * @typedef {object} GivenSpine
 * @property {"regular" | "geography"} kind
 * @property {string[]} levels  root first
 * @property {number[]} shown  numbers of the geolevels that are shown
 * @property {number[]} children  children of a geounit of each geolevel of a regular spine; otherwise empty
 * @property {number[]} numbers  geounits of each geolevel
 * @property {(string[] | null)[]} codes  geocodes of each geolevel
 * @property {Family[]} families
 * @property {Record<string, string[]>} labels  of the answers of queries that are shown one by one
 */

/** @typedef {{ name: string, codes: string[], members: number[][] }} Family */

/**
 * The noise of one query at one geolevel.
 * @typedef {object} Noise
 * @property {string} geolevel
 * @property {string} query
 * @property {number} size  number of answers
 * @property {Fraction} budget
 * @property {number} parameter
 * @property {number} variance
 * @property {number} moved  answers that move between neighbours under the plan's relation
 */

export class PlanState {
  /** @param {GivenPlan} given */
  constructor(given) {
    this.given = given;
    this.givenTotal = exact(given.total);
    this.declared = exact(given.declared);
    this.total = this.givenTotal;
    this.geolevels = new Shares(given.geolevels.map((one) => one.name), given.geolevels.map((one) => exact(one.share)));
    this.queries = given.geolevels.map((level) =>
      new Shares(level.queries.map((one) => one.name), level.queries.map((one) => exact(one.share))));
  }

  get isGaussian() {
    return this.given.mechanism === "discrete_gaussian";
  }

  get delta() {
    return toNumber(exact(this.given.delta));
  }

  /** Whether the plan is the file as it was given. */
  get isGiven() {
    return compare(this.total, this.givenTotal) === 0 && [this.geolevels, ...this.queries].every((one) => one.isGiven);
  }

  /** Whether the budget is more than the file declares. */
  get isAboveDeclared() {
    return compare(this.total, this.declared) > 0;
  }

  /** Go back to the numbers of the file. Locks stay. */
  takeGiven() {
    this.total = this.givenTotal;
    for (const one of [this.geolevels, ...this.queries]) one.takeGiven();
  }

  /** Go back to the file, without locks. */
  reset() {
    this.total = this.givenTotal;
    for (const one of [this.geolevels, ...this.queries]) one.reset();
  }

  /**
   * The noise of every query at every geolevel, with another budget if one is given.
   * @param {number} [factor]  of the budget; for curves
   * @returns {Noise[]}
   */
  noise(factor = 1) {
    const { mechanism, neighbours } = this.given, doubled = neighbours === "bounded" ? 2 : 1;
    return this.given.geolevels.flatMap((level, i) => level.queries.map((query, k) => {
      const budget = times(times(this.total, this.geolevels.exact[i]), this.queries[i].exact[k]);
      const moved = doubled * query.sensitivity, half = this.isGaussian ? 2n : 1n;
      const parameter = toNumber(over(fraction(BigInt(moved)), times(budget, fraction(half)))) / factor;
      return {
        geolevel: level.name, query: query.name, size: query.answers, budget, parameter,
        variance: varianceOf(mechanism, parameter), moved,
      };
    }));
  }

  /**
   * The values of the slots of the file's template.
   * @returns {Record<string, Fraction>}
   */
  slots() {
    /** @type {Record<string, Fraction>} */
    const found = { total: this.total, declared: this.isAboveDeclared ? this.total : this.declared };
    this.geolevels.exact.forEach((share, i) => { found[`g${i}`] = share; });
    this.queries.forEach((shares, i) => shares.exact.forEach((share, k) => { found[`q${i}.${k}`] = share; }));
    return found;
  }
}

/**
 * @param {Noise} noise
 * @param {Mechanism} mechanism
 */
export function margin(noise, mechanism) {
  return marginOf(mechanism, noise.parameter);
}

/**
 * The sum of the budgets of some queries.
 * @param {Noise[]} noise
 * @returns {Fraction}
 */
export function budgetOf(noise) {
  return noise.reduce((sum, one) => plus(sum, one.budget), fraction(0n));
}

/**
 * Whether a budget can be computed with: from a millionth to a million.
 * @param {Fraction} value
 */
export function isBudget(value) {
  return compare(value, fraction(1n, 1_000_000n)) >= 0 && compare(value, fraction(1_000_000n)) <= 0;
}

/** @param {string} text */
function exact(text) {
  const found = parsed(text);
  if (!found) throw new Error(`plan.json has ${text} where an exact number is wanted. Make the workbench again.`);
  return found;
}
