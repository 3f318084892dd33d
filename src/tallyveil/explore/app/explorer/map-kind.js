/** Which kind of area a map shows by itself: the finest geolevel whose areas are not too many for what is in view. */

/** @typedef {import("./site.js").Site} Site */
/** @typedef {[number, number, number, number]} Box */

const MOST_IN_VIEW = 700;

/**
 * @param {Site} site
 * @param {number} zoom
 * @param {Box} view
 * @returns {number}
 */
export function kindForZoom(site, zoom, view) {
  const map = /** @type {NonNullable<Site["map"]>} */ (site.map);
  const part = overlap(view, map.bounds) / size(map.bounds);
  const levels = map.tiles.filter((one) => site.kinds[one.kind].type === "geolevel").sort((a, b) => a.kind - b.kind);
  const fitting = levels.filter((one) => one.minzoom <= zoom && site.kinds[one.kind].n * part <= MOST_IN_VIEW);
  return (fitting[fitting.length - 1] ?? levels[0]).kind;
}

/**
 * @param {Box} one
 * @param {Box} other
 */
function overlap(one, other) {
  const width = Math.min(one[2], other[2]) - Math.max(one[0], other[0]);
  const height = Math.min(one[3], other[3]) - Math.max(one[1], other[1]);
  return Math.max(0, width) * Math.max(0, height);
}

/** @param {Box} box */
function size(box) {
  return Math.max((box[2] - box[0]) * (box[3] - box[1]), 1e-12);
}
