/** Pictures of intervals, from their numbers. Each stands beside a table with the same numbers, so readers of screens skip it. */

import { element, svgElement } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { count } from "../parts/numbers.js";

/** @typedef {import("./sentences.js").Answer} Answer */

const WIDTH = 560;
const MARGIN = 46;

/**
 * The interval, the estimate and the published count of one answer on a line of their own.
 * @param {Answer} answer
 * @returns {SVGSVGElement | null} null without an interval that has two ends
 */
export function intervalPicture(answer) {
  const { low, high } = answer;
  if (low === null || high === null) return null;
  const values = [low, high, ...[answer.estimate, answer.published].filter((value) => value !== null)];
  const least = Math.min(...values);
  const most = Math.max(...values);
  const pad = Math.max(0.08 * (most - least), 0.5);
  const ticks = niceTicks(least - pad, most + pad);
  const from = Math.min(least - pad, ticks[0]);
  const to = Math.max(most + pad, ticks[ticks.length - 1]);
  const x = scale(from, to, MARGIN, WIDTH - MARGIN);
  return svgElement("svg", { class: "picture", viewBox: `0 0 ${WIDTH} 78`, "aria-hidden": "true" },
    svgElement("line", { class: "axis", x1: x(from), x2: x(to), y1: 52, y2: 52 }),
    ...ticks.flatMap((tick) => [
      svgElement("line", { class: "axis", x1: x(tick), x2: x(tick), y1: 52, y2: 57 }),
      svgElement("text", { x: x(tick), y: 72, "text-anchor": "middle" }, count(tick)),
    ]),
    ...marks(answer, x, 26, 6));
}

/**
 * An interval in the row of a table.
 * @param {Answer} answer
 * @param {number} from left end of the axis
 * @param {number} to right end of the axis
 * @returns {SVGSVGElement}
 */
export function intervalSpark(answer, from, to) {
  const x = scale(from, to, 5, 139);
  return svgElement("svg", { class: "spark", viewBox: "0 0 144 20", "aria-hidden": "true" },
    svgElement("rect", { class: "bar", x: 0, y: 3, width: 144, height: 14, rx: 3 }), ...marks(answer, x, 10, 4));
}

/**
 * The axis on which an answer's row draws it: the interval in the middle half.
 * @param {Answer} answer
 * @returns {[number, number]}
 */
export function ownAxis(answer) {
  const values = [answer.low, answer.high, answer.published, answer.estimate].filter((value) => value !== null);
  const least = Math.min(...values);
  const most = Math.max(...values);
  const pad = Math.max(0.15 * (most - least), 0.5);
  return [least - pad, most + pad];
}

/**
 * What the marks of the pictures mean.
 * @param {boolean} counts whether there are published counts
 */
export function pictureKey(counts) {
  const sign = (/** @type {SVGElement[]} */ ...shapes) =>
    svgElement("svg", { viewBox: "0 0 28 18", "aria-hidden": "true", class: "picture-sign" }, ...shapes);
  return element("ul", { class: "key picture" },
    counts ? element("li", {}, sign(diamond(14, 9, 6)), say("Published count")) : null,
    element("li", {}, sign(svgElement("circle", { class: "estimate", cx: 14, cy: 9, r: 5 })), say("Unbiased estimate")),
    element("li", {}, sign(svgElement("line", { class: "span", x1: 3, x2: 25, y1: 9, y2: 9 })), say("Interval")));
}

/**
 * @param {Answer} answer
 * @param {(value: number) => number} x
 * @param {number} y
 * @param {number} radius
 */
function marks(answer, x, y, radius) {
  const { low, high, estimate, published } = answer;
  return [
    ...(low !== null && high !== null ? [svgElement("line", { class: "span", x1: x(low), x2: x(high), y1: y, y2: y })] : []),
    ...(estimate !== null ? [svgElement("circle", { class: "estimate", cx: x(estimate), cy: y, r: radius })] : []),
    ...(published !== null ? [diamond(x(published), y, radius + 1)] : []),
  ];
}

/**
 * @param {number} x
 * @param {number} y
 * @param {number} radius
 */
function diamond(x, y, radius) {
  return svgElement("path", { class: "published", d: `M${x} ${y - radius}l${radius} ${radius}l${-radius} ${radius}l${-radius} ${-radius}z` });
}

/**
 * @param {number} from
 * @param {number} to
 * @param {number} left
 * @param {number} right
 * @returns {(value: number) => number}
 */
function scale(from, to, left, right) {
  return (value) => Number((left + ((value - from) / (to - from || 1)) * (right - left)).toFixed(2));
}

/**
 * Whole numbers at round steps inside a range.
 * @param {number} from
 * @param {number} to
 * @returns {number[]}
 */
function niceTicks(from, to) {
  const rough = Math.max((to - from) / 4, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.floor(to / step) - first + 1 }, (_, place) => (first + place) * step);
}
