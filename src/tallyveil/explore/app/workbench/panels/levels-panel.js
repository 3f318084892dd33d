/** The error of the chosen query at every geolevel, of both plans, as a picture and a table. */

import { byId, element, refill, svgElement } from "../../parts/elements.js";
import { figure, say } from "../../parts/language.js";
import { shown } from "../../parts/shown.js";
import { logTicks } from "./plot.js";
import { change, deviation } from "../text.js";

/** @typedef {{ geolevel: string, now: number | undefined, before: number | undefined }} Row */

const WIDTH = 460, LEFT = 112, RIGHT = 26, TOP = 8, ROW = 34, BOTTOM = 44, SHORT = 13;

/**
 * @param {string} what  the query, in words
 * @param {Row[]} rows
 * @param {string | null} beforeName  null if there is nothing to compare with
 * @param {string} units
 */
export function showLevels(what, rows, beforeName, units) {
  const place = byId("levels");
  place.hidden = false;
  const open = place.querySelector("details")?.open ?? false;
  const known = rows.filter((row) => row.now !== undefined || row.before !== undefined);
  const drawn = known.flatMap(({ now, before }) => [now, before]).filter(isDrawn);
  const title = element("h2", { id: "levels-title" }, say("Error by geolevel"));
  const about = element("p", {}, element("strong", {}, shown(what)), beforeName ? say(", now and in {name}.", { name: shown(beforeName) }) : ".");
  if (!drawn.length) {
    refill(place, title, about, element("p", { class: "quiet" },
      say("This query is published exactly, or not determined, at every geolevel. Choose another one in the table.")));
    return;
  }
  refill(place, title, about,
    beforeName ? element("p", { class: "legend quiet" }, element("span", { class: "dot now" }), say("now"),
      element("span", { class: "dot before" }), shown(beforeName)) : null,
    picture(known, drawn, units),
    element("details", { open }, element("summary", {}, say("The same as a table")),
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": say("Error of {what} by geolevel", { what: shown(what) }) },
        element("table", {}, element("caption", { class: "unseen" }, say("Error of {what} by geolevel", { what: shown(what) })),
          element("thead", {}, element("tr", {}, element("th", { scope: "col" }, say("geolevel")),
            ...[say("now"), ...(beforeName ? [shown(beforeName), say("change")] : [])].map((text) => element("th", { scope: "col", class: "number" }, text)))),
          element("tbody", {}, ...known.map(({ geolevel, now, before }) => element("tr", {},
            element("th", { scope: "row" }, shown(geolevel)),
            ...[text(now), ...(beforeName ? [text(before), moved(before, now)] : [])].map((value) => element("td", { class: "number" }, value)))))))));
}

/**
 * One row for each geolevel, on a logarithmic axis. The ring is the error of the plan that is compared with.
 * @param {Row[]} rows
 * @param {number[]} values
 * @param {string} units
 */
function picture(rows, values, units) {
  const ticks = logTicks(Math.min(...values), Math.max(...values)), bottom = TOP + rows.length * ROW;
  const low = Math.log(ticks[0]), high = Math.log(ticks[ticks.length - 1]);
  const x = (/** @type {number} */ value) => Math.round(10 * (LEFT + ((Math.log(value) - low) / (high - low)) * (WIDTH - RIGHT - LEFT))) / 10;
  const plain = (/** @type {number} */ value) => figure(value >= 1000 ? value.toLocaleString("en") : String(value));
  return svgElement("svg", { class: "curves levels", viewBox: `0 0 ${WIDTH} ${bottom + BOTTOM}`, "aria-hidden": "true" },
    ...ticks.flatMap((tick) => [
      svgElement("line", { class: "grid", x1: x(tick), x2: x(tick), y1: TOP, y2: bottom }),
      svgElement("text", { x: x(tick), y: bottom + 16, "text-anchor": "middle" }, plain(tick)),
    ]),
    svgElement("text", { class: "axis-title", x: (LEFT + WIDTH - RIGHT) / 2, y: bottom + 36, "text-anchor": "middle" }, say("standard deviation, {units}", { units })),
    ...rows.flatMap(({ geolevel, now, before }, i) => {
      const y = TOP + (i + 0.5) * ROW;
      return [
        svgElement("text", { class: "axis-title", x: LEFT - 8, y: y + 4, "text-anchor": "end" }, brief(shown(geolevel))),
        isDrawn(now) && isDrawn(before) ? svgElement("line", { class: "between-dots", x1: x(before), x2: x(now), y1: y, y2: y }) : null,
        isDrawn(before) ? svgElement("circle", { class: "mark ring before", cx: x(before), cy: y, r: 7 }) : null,
        isDrawn(now) ? svgElement("circle", { class: "mark now", cx: x(now), cy: y, r: 5 }) : null,
        isDrawn(now) || isDrawn(before) ? null
          : svgElement("text", { x: LEFT + 6, y: y + 4 }, now === undefined ? text(before) : text(now)),
      ];
    }));
}

/**
 * @param {number | undefined} value
 * @returns {value is number}
 */
function isDrawn(value) {
  return value !== undefined && value >= 1e-6 && Number.isFinite(value);
}

/** @param {number | undefined} value */
function text(value) {
  return value === undefined ? "–" : deviation(value);
}

/**
 * @param {number | undefined} before
 * @param {number | undefined} now
 */
function moved(before, now) {
  if (before === undefined || now === undefined) return "–";
  return change(before, now) || (text(before) === text(now) ? say("same") : "–");
}

/** @param {string} name */
function brief(name) {
  return name.length > SHORT ? `${name.slice(0, SHORT - 1)}…` : name;
}
