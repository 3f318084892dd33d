/** The finest geounits inside a drawn shape. */

import { boxOf, inside } from "./lasso.js";

/** @typedef {import("./areas.js").Areas} Areas */
/** @typedef {import("./area.js").Area} Area */
/** @typedef {import("./lasso.js").Point} Point */

/**
 * The rows whose middle of the bounding box lies inside a shape. Only geounits whose box meets the shape are opened.
 * @param {Areas} areas
 * @param {Point[]} corners
 * @returns {Promise<Int32Array>}
 */
export async function rowsInShape(areas, corners) {
  const { site } = areas;
  const [west, south, east, north] = boxOf(corners);
  const meets = (/** @type {Area} */ { box }) =>
    box !== null && box[0] <= east && box[2] >= west && box[1] <= north && box[3] >= south;
  let level = await areas.range(0, 0, site.kinds[0].n);
  for (let kind = 0; kind < site.finest; kind++) {
    const children = level.filter(meets).flatMap((area) => {
      const first = /** @type {number} */ (area.firstChild);
      return Array.from({ length: area.nChildren }, (_, child) => first + child);
    });
    level = await areas.areas(kind + 1, children);
  }
  const found = level.filter((area) => meets(area) && inside(corners, middle(area)));
  return Int32Array.from(found, (area) => area.row).sort();
}

/**
 * @param {Area} area
 * @returns {Point}
 */
function middle({ box }) {
  const [west, south, east, north] = /** @type {[number, number, number, number]} */ (box);
  return [(west + east) / 2, (south + north) / 2];
}
