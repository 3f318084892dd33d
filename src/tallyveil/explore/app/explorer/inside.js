/** The areas inside an area, and the entities that share blocks with it: for drilling down and across. */

import { csvText, download } from "../parts/csv.js";
import { element, refill } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { linkTo } from "../parts/link-state.js";
import { count, counted, rounded } from "../parts/numbers.js";
import { pagedTable } from "../parts/tables.js";
import { ANSWER_HEADINGS } from "./answer-table.js";
import { areaTitle } from "./area.js";
import { intervalSpark } from "./interval-picture.js";
import { answerOf, estimateText, intervalText } from "./sentences.js";
import { answerTitle, hasCounts, kindTitle, kindWords, tableTitle } from "./site.js";
import { areaKey } from "./view.js";

/** @typedef {import("./area.js").Area} Area */
/** @typedef {import("./areas.js").Areas} Areas */
/** @typedef {import("./view.js").View} View */
/** @typedef {{area: Area, answer: import("./sentences.js").Answer, note: string}} Row */
/** @typedef {{n: number, at: (place: number) => {kind: number, row: number}, notes?: string[]}} Group areas, and what is said of each */

const PAGE = 25;
const NONE = { published: null, estimate: null, error: null, low: null, high: null };
const MOST_FINEST = 20_000; // above this, looking up entities would read too many files at once

/**
 * Show what is inside an area and beside it.
 * @param {HTMLElement} place
 * @param {Areas} areas
 * @param {View} view
 */
export async function showInside(place, areas, view) {
  const { area } = view;
  const parts = [];
  const inside = await insideOf(areas, area);
  if (inside && inside.n > 0) {
    const kind = areas.site.kinds[inside.at(0).kind];
    parts.push(await groupTable(areas, view, inside, say("{kind}: {areas} inside", { kind: kindTitle(kind), areas: counted(inside.n, say("area"), say("areas")) })));
  }
  if (areas.site.kinds.some((kind) => kind.type === "family" && kind !== area.kind)) parts.push(across(areas, view));
  place.hidden = parts.length === 0;
  refill(place, ...parts);
}

/**
 * @param {Areas} areas
 * @param {Area} area
 * @returns {Promise<Group | null>}
 */
async function insideOf(areas, area) {
  const first = area.firstChild;
  if (area.kind.type === "family") {
    const rows = await areas.members(area);
    return { n: rows.length, at: (place) => ({ kind: areas.site.finest, row: rows[place] }) };
  }
  if (first === null || area.nChildren === 0) return null;
  return { n: area.nChildren, at: (place) => ({ kind: area.kind.number + 1, row: first + place }) };
}

/**
 * The entities that share blocks with the area. They are looked up when a reader opens the list, except for a block.
 * @param {Areas} areas
 * @param {View} view
 */
function across(areas, view) {
  const { area } = view;
  const { one, many } = kindWords(areas.site.kinds[areas.site.finest]);
  const list = element("div", {});
  const summary = area.kind.number === areas.site.finest ? say("Other areas that this one is in") : say("Other areas that share {areas} with this one", { areas: many });
  const details = element("details", {}, element("summary", {}, summary), list);
  const size = area.kind.type === "family" ? 0 : area.nFinest;
  const look = async () => {
    if (list.childElementCount > 0) return;
    if (size > MOST_FINEST) {
      refill(list, element("p", { class: "quiet" }, say("This area has {number} {areas}. Open an area inside it to see what it shares.", { number: count(size), areas: many })));
      return;
    }
    refill(list, element("p", { class: "quiet" }, say("Loading …")));
    const found = (await areas.entities(area)).sort((a, b) => a.kind - b.kind || b.shared - a.shared);
    const notes = found.map(({ shared }) => counted(shared, one, many));
    const group = { n: found.length, at: (/** @type {number} */ place) => found[place], notes };
    refill(list, found.length > 0 ? await groupTable(areas, view, group, summary) : element("p", { class: "quiet" }, say("There are none.")));
  };
  details.addEventListener("toggle", look);
  if (area.kind.number === areas.site.finest) details.open = true;
  return details;
}

/**
 * @param {Areas} areas
 * @param {View} view
 * @param {Group} group
 * @param {string} title
 */
async function groupTable(areas, view, group, title) {
  const { site } = areas;
  const { table } = view;
  const most = await greatest(areas, view, group);
  const label = table.answers.length > 1 ? `${tableTitle(table)}: ${answerTitle(table, view.answer)}` : tableTitle(table);
  const across = group.notes !== undefined;
  const made = await pagedTable({
    caption: `${title}. ${label}`,
    captionHidden: true,
    n: group.n,
    page: PAGE,
    rows: (start, stop) => rowsOf(areas, view, group, start, stop),
    columns: [
      { heading: say("Area"), head: true, show: (row) => element("a", { href: linkTo({ area: areaKey(row.area) }) }, areaTitle(row.area)) },
      ...(across ? [
        { heading: say("Kind"), show: (/** @type {Row} */ row) => kindTitle(row.area.kind) },
        { heading: say("Shared"), numeric: true, show: (/** @type {Row} */ row) => row.note },
      ] : []),
      ...(hasCounts(site)
        ? [{ heading: say("Published"), numeric: true, show: (/** @type {Row} */ row) => count(row.answer.published) }]
        : [{ heading: say("Estimate"), numeric: true, show: (/** @type {Row} */ row) => estimateText(row.answer) }]),
      ...(site.intervals && table.intervals ? [
        { heading: say("Interval"), numeric: true, show: (/** @type {Row} */ row) => intervalText(row.answer) },
        ...(across ? [] : [{ heading: say("On one scale"), show: (/** @type {Row} */ row) => intervalSpark(row.answer, 0, most) }]),
        { heading: say("Standard error"), numeric: true, show: (/** @type {Row} */ row) => rounded(row.answer.error) },
      ] : []),
    ],
  });
  const save = element("button", { type: "button", onclick: () => saveGroup(areas, view, group) }, say("Download as CSV"));
  return element("section", { "aria-label": title },
    element("div", { class: "head" }, element("div", {}, across ? null : element("h2", {}, title), element("p", { class: "quiet" }, label)), save), made);
}

/**
 * The right end of the common axis: the greatest end of an interval on the first pages.
 * @param {Areas} areas
 * @param {View} view
 * @param {Group} group
 */
async function greatest(areas, view, group) {
  const rows = await rowsOf(areas, view, group, 0, Math.min(group.n, 40 * PAGE));
  return Math.max(1, ...rows.map(({ answer }) => Math.max(answer.high ?? 0, answer.published ?? 0)));
}

/**
 * @param {Areas} areas
 * @param {View} view
 * @param {Group} group
 * @param {number} start
 * @param {number} stop
 * @returns {Promise<Row[]>}
 */
async function rowsOf(areas, view, group, start, stop) {
  const places = Array.from({ length: stop - start }, (_, place) => start + place);
  const wanted = places.map(group.at);
  /** @type {Row[]} */
  const rows = new Array(wanted.length);
  await Promise.all([...new Set(wanted.map(({ kind }) => kind))].map(async (kind) => {
    const own = places.filter((place) => group.at(place).kind === kind);
    const of = own.map((place) => group.at(place).row);
    const has = view.table.kinds.includes(kind);
    const [found, numbers] = await Promise.all([
      areas.areas(kind, of), has ? areas.numbersOf(kind, of, view.table.number, view.answer) : null,
    ]);
    own.forEach((place, at) => {
      rows[place - start] = { area: found[at], answer: numbers ? answerOf(numbers[at], 0) : NONE, note: group.notes?.[place] ?? "" };
    });
  }));
  return rows;
}

/**
 * @param {Areas} areas
 * @param {View} view
 * @param {Group} group
 */
async function saveGroup(areas, view, group) {
  const rows = await rowsOf(areas, view, group, 0, group.n);
  const lines = rows.map(({ area, answer }) => [
    area.kind.name, area.geocode, area.name, view.table.name, view.table.answers[view.answer],
    answer.published, answer.estimate, answer.error, answer.low, answer.high,
  ]);
  download(`${areas.site.name}-${view.area.geocode}-areas-${view.table.name}.csv`, csvText(["kind", "geocode", "name", ...ANSWER_HEADINGS], lines));
}
