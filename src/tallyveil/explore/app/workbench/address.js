/** The page's state as parts of its address. Budget and shares are exact fractions; what is as in the file has no part. */

import { parsed, toText } from "./fractions.js";
import { isBudget } from "./state.js";
import { MOST_CHILDREN } from "./panels/spine-part.js";

/** @typedef {import("./state.js").PlanState} PlanState */
/** @typedef {import("./panels/accuracy-panel.js").Chosen} Chosen */
/** @typedef {import("./fractions.js").Fraction} Fraction */

/**
 * What an address stands for.
 * @typedef {object} Position
 * @property {PlanState} state
 * @property {number[]} children  of a regular spine
 * @property {Chosen} chosen
 * @property {number} level  number of the geolevel whose queries have sliders
 */

const KINDS = ["estimate", "noise"], STATISTICS = ["smallest", "median", "largest"];
const LONGEST = 200; // characters of a fraction

/**
 * The parts of an address. A part is null if it is as at first.
 * @param {Position} now
 * @param {{ children: number[], chosen: Chosen }} first
 * @returns {Record<string, string | null>}
 */
export function partsOf({ state, children, chosen, level }, first) {
  const isFirst = children.every((n, i) => n === first.children[i]);
  const isCounted = chosen.geolevel !== first.chosen.geolevel || chosen.query !== first.chosen.query;
  /** @type {Record<string, string | null>} */
  const parts = {
    total: toText(state.total) === toText(state.givenTotal) ? null : toText(state.total),
    geolevels: textOf(state.geolevels),
    children: isFirst ? null : children.join(),
    error: chosen.kind === first.chosen.kind ? null : chosen.kind,
    over: chosen.statistic === first.chosen.statistic ? null : chosen.statistic,
    count: isCounted ? joined(chosen.geolevel, chosen.query) : null,
    level: level === 0 ? null : state.given.geolevels[level].name,
  };
  state.queries.forEach((shares, i) => { parts[`queries.${i}`] = textOf(shares); });
  return parts;
}

/**
 * Change a position as an address says. A part that is absent or not understood leaves what the position has.
 * @param {Record<string, string>} parts
 * @param {Position} position
 * @param {{ kinds: string[], geolevels: string[], queries: string[] }} known  names that a count can have
 * @returns {string[]} the names of the parts that were not understood
 */
export function takeParts(parts, position, known) {
  const { state, chosen } = position, names = state.given.geolevels.map((one) => one.name);
  /** @type {Record<string, (text: string) => boolean>} */
  const takers = {
    total: (text) => {
      const value = exact(text), sound = value !== null && isBudget(value);
      if (sound) state.total = value;
      return sound;
    },
    geolevels: (text) => takeShares(state.geolevels, text),
    children: (text) => {
      const found = text.split(",").map(Number), { children } = position;
      const sound = found.length === children.length && found.every((n) => Number.isInteger(n) && n >= 1 && n <= MOST_CHILDREN);
      if (sound) found.forEach((n, i) => { children[i] = n; });
      return sound;
    },
    error: (text) => {
      const sound = KINDS.includes(text) && known.kinds.includes(text);
      if (sound) chosen.kind = /** @type {Chosen["kind"]} */ (text);
      return sound;
    },
    over: (text) => {
      if (STATISTICS.includes(text)) chosen.statistic = /** @type {Chosen["statistic"]} */ (text);
      return STATISTICS.includes(text);
    },
    count: (text) => {
      const found = split(text), sound = found?.length === 2 && known.geolevels.includes(found[0]) && known.queries.includes(found[1]);
      if (found && sound) [chosen.geolevel, chosen.query] = found;
      return sound;
    },
    level: (text) => {
      if (names.includes(text)) position.level = names.indexOf(text);
      return names.includes(text);
    },
  };
  state.queries.forEach((shares, i) => { takers[`queries.${i}`] = (text) => takeShares(shares, text); });
  return Object.entries(parts).filter(([name, text]) => !(Object.hasOwn(takers, name) && takers[name](text))).map(([name]) => name);
}

/**
 * Names in one part of an address.
 * @param {...string} names
 */
export function joined(...names) {
  return names.map(encodeURIComponent).join("/");
}

/**
 * The names in a part of an address, or null if it has none.
 * @param {string} text
 */
export function split(text) {
  try {
    return text.split("/").map(decodeURIComponent);
  } catch (error) {
    if (error instanceof URIError) return null;
    throw error;
  }
}

/** @param {import("./shares.js").Shares} shares */
function textOf(shares) {
  return shares.isGiven ? null : shares.exact.map(toText).join();
}

/**
 * @param {import("./shares.js").Shares} shares
 * @param {string} text
 */
function takeShares(shares, text) {
  const found = text.split(",").map(exact);
  return found.every((one) => one !== null) && shares.take(/** @type {Fraction[]} */ (found));
}

/** @param {string} text */
function exact(text) {
  return text.length > LONGEST ? null : parsed(text);
}
