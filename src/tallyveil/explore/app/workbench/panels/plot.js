/** Pictures of curves. A table with the same numbers stands beside each, so readers of screens skip the picture. */

import { svgElement } from "../../parts/elements.js";

/**
 * @typedef {object} Line
 * @property {string} kind  class of the line: "now", "before" or "reference"
 * @property {[number, number][]} points
 */

/** @typedef {{ kind: string, at: [number, number], label: string, above: boolean }} Mark */

/**
 * @typedef {object} Axis
 * @property {string} title
 * @property {number[]} ticks  at least two, increasing
 * @property {boolean} log
 * @property {(value: number) => string} text
 */

const WIDTH = 460, HEIGHT = 300, LEFT = 70, RIGHT = 22, TOP = 12, BOTTOM = 46;

/**
 * @param {Axis} across
 * @param {Axis} up
 * @param {Line[]} lines
 * @param {Mark[]} marks
 * @returns {SVGSVGElement}
 */
export function curvePicture(across, up, lines, marks) {
  const x = scale(across, LEFT, WIDTH - RIGHT), y = scale(up, HEIGHT - BOTTOM, TOP);
  return svgElement("svg", { class: "curves", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" },
    ...across.ticks.flatMap((tick) => [
      svgElement("line", { class: "grid", x1: x(tick), x2: x(tick), y1: TOP, y2: HEIGHT - BOTTOM }),
      svgElement("text", { x: x(tick), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, across.text(tick)),
    ]),
    ...up.ticks.flatMap((tick) => [
      svgElement("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }),
      svgElement("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, up.text(tick)),
    ]),
    svgElement("text", { class: "axis-title", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, across.title),
    svgElement("text", { class: "axis-title", x: 12, y: (TOP + HEIGHT - BOTTOM) / 2, "text-anchor": "middle",
      transform: `rotate(-90 12 ${(TOP + HEIGHT - BOTTOM) / 2})` }, up.title),
    ...lines.map((line) => svgElement("path", { class: `line ${line.kind}`, d: path(line.points, x, y) })),
    ...marks.flatMap((mark) => [
      svgElement("circle", { class: `mark ${mark.kind}`, cx: x(mark.at[0]), cy: y(mark.at[1]), r: 5 }),
      svgElement("text", { class: `mark-label ${mark.kind}`, ...labelPlace(x(mark.at[0]), y(mark.at[1]), mark.above) }, mark.label),
    ]));
}

/**
 * Powers of two times a power of ten that cover a range: 1, 2, 5, 10 and so on.
 * @param {number} least
 * @param {number} most
 * @returns {number[]}
 */
export function logTicks(least, most) {
  const found = [];
  for (let power = Math.floor(Math.log10(least)) - 1; power <= Math.ceil(Math.log10(most)); power++) {
    for (const step of [1, 2, 5]) found.push(Number(`${step}e${power}`));
  }
  const first = Math.max(0, found.findIndex((tick) => tick > least) - 1), last = found.findIndex((tick) => tick >= most);
  const kept = found.slice(first, last + 1);
  return kept.length > 9 ? kept.filter((tick, i) => i === 0 || i === kept.length - 1 || /^1(e|0*$)|^0?\.0*1$/.test(String(tick))) : kept;
}

/**
 * @param {Axis} axis
 * @param {number} from
 * @param {number} to
 */
function scale(axis, from, to) {
  const by = axis.log ? Math.log : (/** @type {number} */ value) => value;
  const low = by(axis.ticks[0]), high = by(axis.ticks[axis.ticks.length - 1]);
  return (/** @type {number} */ value) => Math.round(10 * (from + ((by(value) - low) / (high - low)) * (to - from))) / 10;
}

/**
 * @param {[number, number][]} points
 * @param {(value: number) => number} x
 * @param {(value: number) => number} y
 */
function path(points, x, y) {
  return points.map(([a, b], i) => `${i ? "L" : "M"}${x(a)} ${y(b)}`).join("");
}

/**
 * @param {number} x
 * @param {number} y
 * @param {boolean} above
 */
function labelPlace(x, y, above) {
  const right = x > WIDTH * 0.62;
  return { x: right ? x - 9 : x + 9, y: above ? y - 8 : y + 17, "text-anchor": right ? "end" : "start" };
}
