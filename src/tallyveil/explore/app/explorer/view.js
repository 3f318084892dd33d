/** What the page shows: the state of its address, looked up in the site. */

import { readState, writeState } from "../parts/link-state.js";
import { tablesOf } from "./site.js";

/** @typedef {import("./area.js").Area} Area */
/** @typedef {import("./areas.js").Areas} Areas */
/** @typedef {import("./site.js").Table} Table */

/**
 * @typedef {object} View
 * @property {Area} area
 * @property {Table} table
 * @property {number} answer place in the table
 * @property {Area | null} other the area that this one is compared with
 * @property {string | null} missing what the address names and the site does not have
 */

/**
 * The view that the address asks for. What it does not say, or says wrongly, is the root and the first table.
 * @param {Areas} areas
 * @returns {Promise<View>}
 */
export async function currentView(areas) {
  const state = readState();
  const asked = state.area ? await findArea(areas, state.area) : null;
  const area = asked ?? await areas.area(0, 0);
  const tables = tablesOf(areas.site, area.kind.number);
  const table = tables.find((one) => one.name === state.table) ?? tables[0];
  const answer = Number(state.answer ?? 0);
  const known = Number.isInteger(answer) && answer >= 0 && answer < table.answers.length;
  const other = state.with ? await findArea(areas, state.with) : null;
  const missing = state.area && !asked ? state.area : state.with && !other ? state.with : null;
  return { area, table, answer: known ? answer : 0, other, missing };
}

/**
 * How the address names an area.
 * @param {Area} area
 */
export function areaKey(area) {
  return `${area.kind.number}/${area.geocode}`;
}

/**
 * Show another area.
 * @param {Area} area
 */
export function goTo(area) {
  writeState({ area: areaKey(area) });
}

/**
 * @param {Areas} areas
 * @param {string} key
 * @returns {Promise<Area | null>}
 */
async function findArea(areas, key) {
  const cut = key.indexOf("/");
  const kind = Number(key.slice(0, cut));
  if (cut < 1 || !areas.site.kinds[kind]) return null;
  return areas.find(kind, key.slice(cut + 1));
}
