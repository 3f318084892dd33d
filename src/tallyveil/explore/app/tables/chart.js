/** A chart of the first rows of an answer: each number with its interval. The table has the same numbers, so readers of screens skip it. */

import { element, svgElement } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { pictureKey } from "../explorer/interval-picture.js";

/** @typedef {import("./answer.js").AnswerTable} AnswerTable */
/** @typedef {import("./answer.js").Row} Row */

const MOST = 40; // lines of a chart, about a screen
const WIDTH = 760;
const LEFT = 250;
const RIGHT = 24;
const LINE = 22; // height of a line
const TOP = 8;
const LONGEST = 34; // characters of a label
const TICKS = 5;

/**
 * @param {AnswerTable} table
 * @param {Row[]} rows in the order of the table
 * @returns {HTMLElement | null} null where no number is known
 */
export function chartOf(table, rows) {
  const all = rows.flatMap((row) => row.cells.map((place, column) => ({
    title: [...row.labels.map(({ title }) => title), table.columns[column]].filter((text) => text !== "").join(" · ") || say("All"),
    published: table.hasPublished ? number(table.published(place)) : null, estimate: number(table.value("estimate", place)),
    low: number(table.value("lower", place)), high: number(table.value("upper", place)), unusable: table.value("usable", place) === false,
  })));
  const lines = all.slice(0, MOST);
  const values = lines.flatMap(({ published, estimate, low, high }) => [published, estimate, low, high]).filter((value) => value !== null);
  if (values.length === 0) return null;
  const ticks = ticksOf(Math.min(0, ...values), Math.max(0, ...values));
  const [from, to] = [ticks[0], ticks[ticks.length - 1]];
  const x = (/** @type {number} */ value) => Number((LEFT + ((value - from) / (to - from)) * (WIDTH - LEFT - RIGHT)).toFixed(2));
  const bottom = TOP + lines.length * LINE + 4;
  return element("figure", { class: "chart" },
    pictureKey(table.hasPublished),
    element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": say("Chart") }, svgElement("svg", { class: "picture lines", viewBox: `0 0 ${WIDTH} ${bottom + 24}`, width: WIDTH, height: bottom + 24, "aria-hidden": "true" },
      ...ticks.flatMap((tick) => [
        svgElement("line", { class: "grid", x1: x(tick), x2: x(tick), y1: TOP, y2: bottom }),
        svgElement("text", { x: x(tick), y: bottom + 17, "text-anchor": "middle" }, table.text(tick)),
      ]),
      ...lines.flatMap((line, place) => marks(line, x, TOP + (place + 0.5) * LINE)))),
    element("figcaption", { class: "quiet" }, all.length > MOST
      ? say("The first {shown} of {number} numbers, in the order of the table, each with its interval.", { shown: MOST, number: all.length }) : say("Each number with its interval.")));
}

/**
 * @param {{title: string, published: number | null, estimate: number | null, low: number | null, high: number | null, unusable: boolean}} line
 * @param {(value: number) => number} x
 * @param {number} y
 */
function marks({ title, published, estimate, low, high, unusable }, x, y) {
  const short = title.length > LONGEST ? `${title.slice(0, LONGEST - 1)}…` : title;
  return [
    svgElement("text", { class: unusable ? "label unusable" : "label", x: LEFT - 12, y: y + 4, "text-anchor": "end" }, unusable ? `${short} †` : short),
    ...(low !== null && high !== null ? [svgElement("line", { class: "span", x1: x(low), x2: x(high), y1: y, y2: y })] : []),
    ...(estimate !== null ? [svgElement("circle", { class: "estimate", cx: x(estimate), cy: y, r: 4 })] : []),
    ...(published !== null ? [svgElement("path", { class: "published", d: `M${x(published)} ${y - 5}l5 5l-5 5l-5 -5z` })] : []),
  ];
}

/** @param {any} value */
function number(value) {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/**
 * Round numbers that hold a range.
 * @param {number} from
 * @param {number} to
 */
function ticksOf(from, to) {
  const rough = (to - from || 1) / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const first = Math.floor(from / step);
  const last = Math.max(Math.ceil(to / step), first + 1);
  return Array.from({ length: last - first + 1 }, (_, place) => Number(((first + place) * step).toPrecision(12)));
}
