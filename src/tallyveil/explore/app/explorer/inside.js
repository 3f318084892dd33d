/** The areas inside an area, and the entities that share blocks with it: for drilling down and across. */

import { csvText, download } from "../parts/csv.js";
import { element, refill } from "../parts/elements.js";
import { linkTo } from "../parts/link-state.js";
import { count, counted, rounded } from "../parts/numbers.js";
import { pagedTable } from "../parts/tables.js";
import { areaTitle } from "./area.js";
import { intervalSpark } from "./interval-picture.js";
import { answerOf, intervalText } from "./sentences.js";
import { answerTitle, kindTitle, tableTitle } from "./site.js";
import { areaKey } from "./view.js";

/** @typedef {import("./area.js").Area} Area */
/** @typedef {import("./areas.js").Areas} Areas */
/** @typedef {import("./view.js").View} View */
/** @typedef {{area: Area, answer: import("./sentences.js").Answer, note: string}} Row */
/** @typedef {{kind: number, rows: ArrayLike<number>, notes?: string[]}} Group areas of one kind, and what is said of each */

const PAGE = 25;
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
  if (inside && inside.rows.length > 0) {
    const kind = areas.site.kinds[inside.kind];
    parts.push(await groupTable(areas, view, inside, `${kindTitle(kind)}: ${counted(inside.rows.length, "area", "areas")} inside`));
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
  if (area.kind.type === "family") return { kind: areas.site.finest, rows: await areas.members(area) };
  if (first === null || area.nChildren === 0) return null;
  return { kind: area.kind.number + 1, rows: Array.from({ length: area.nChildren }, (_, child) => first + child) };
}

/**
 * The entities that share blocks with the area. They are looked up when a reader opens the list, except for a block.
 * @param {Areas} areas
 * @param {View} view
 */
function across(areas, view) {
  const { area } = view;
  const finest = kindTitle(areas.site.kinds[areas.site.finest]).toLowerCase();
  const list = element("div", {});
  const summary = area.kind.number === areas.site.finest ? "Other areas that this one is in" : `Other areas that share ${finest}s with this one`;
  const details = element("details", {}, element("summary", {}, summary), list);
  const size = area.kind.type === "family" ? 0 : area.nFinest;
  const look = async () => {
    if (list.childElementCount > 0) return;
    if (size > MOST_FINEST) {
      refill(list, element("p", { class: "quiet" }, `This area has ${count(size)} ${finest}s. Open an area inside it to see what it shares.`));
      return;
    }
    refill(list, element("p", { class: "quiet" }, "Loading …"));
    const found = await areas.entities(area);
    const groups = areas.site.kinds.flatMap((kind) => {
      const own = found.filter((one) => one.kind === kind.number).sort((a, b) => b.shared - a.shared);
      const notes = own.map((one) => counted(one.shared, finest, `${finest}s`));
      return own.length === 0 ? [] : [{ kind: kind.number, rows: own.map((one) => one.row), notes }];
    });
    const tables = await Promise.all(groups.map((group) => groupTable(areas, view, group, kindTitle(areas.site.kinds[group.kind]))));
    refill(list, ...(tables.length ? tables : [element("p", { class: "quiet" }, "There are none.")]));
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
  const has = table.kinds.includes(group.kind);
  const most = has ? await greatest(areas, view, group) : 0;
  const label = table.answers.length > 1 ? `${tableTitle(table)}: ${answerTitle(table, view.answer)}` : tableTitle(table);
  const shares = group.notes !== undefined;
  const made = await pagedTable({
    caption: `${title}. ${has ? label : "The chosen table has no counts of these areas."}`,
    captionHidden: true,
    n: group.rows.length,
    page: PAGE,
    rows: (start, stop) => rowsOf(areas, view, group, start, stop),
    columns: [
      { heading: "Area", head: true, show: (row) => element("a", { href: linkTo({ area: areaKey(row.area) }) }, areaTitle(row.area)) },
      ...(shares ? [{ heading: "Shared", numeric: true, show: (/** @type {Row} */ row) => row.note }] : []),
      ...(has ? [{ heading: "Published", numeric: true, show: (/** @type {Row} */ row) => count(row.answer.published) }] : []),
      ...(has && site.intervals && table.intervals ? [
        { heading: "Interval", numeric: true, show: (/** @type {Row} */ row) => intervalText(row.answer) },
        { heading: "", show: (/** @type {Row} */ row) => intervalSpark(row.answer, 0, most) },
        { heading: "Standard error", numeric: true, show: (/** @type {Row} */ row) => rounded(row.answer.error) },
      ] : []),
    ],
  });
  const save = element("button", { type: "button", onclick: () => saveGroup(areas, view, group) }, "Download as CSV");
  return element("section", { "aria-label": title },
    element("div", { class: "head" }, element("div", {}, element("h2", {}, title), element("p", { class: "quiet" }, label)), save), made);
}

/**
 * The right end of the common axis: the greatest end of an interval on the first pages.
 * @param {Areas} areas
 * @param {View} view
 * @param {Group} group
 */
async function greatest(areas, view, group) {
  const rows = await rowsOf(areas, view, group, 0, Math.min(group.rows.length, 40 * PAGE));
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
  const rows = Array.from({ length: stop - start }, (_, place) => group.rows[start + place]);
  const has = view.table.kinds.includes(group.kind);
  const [found, numbers] = await Promise.all([
    areas.areas(group.kind, rows),
    has ? areas.numbersOf(group.kind, rows, view.table.number, view.answer) : null,
  ]);
  return found.map((area, place) => ({
    area,
    answer: numbers ? answerOf(numbers[place], 0) : { published: null, estimate: null, error: null, low: null, high: null },
    note: group.notes?.[start + place] ?? "",
  }));
}

/**
 * @param {Areas} areas
 * @param {View} view
 * @param {Group} group
 */
async function saveGroup(areas, view, group) {
  const rows = await rowsOf(areas, view, group, 0, group.rows.length);
  const kind = areas.site.kinds[group.kind].name;
  const lines = rows.map(({ area, answer }) => [
    kind, area.geocode, area.name, view.table.name, view.table.answers[view.answer],
    answer.published, answer.estimate, answer.error, answer.low, answer.high,
  ]);
  download(`${areas.site.name}-${view.area.geocode}-${kind}-${view.table.name}.csv`,
    csvText(["kind", "geocode", "name", "table", "answer", "published", "estimate", "standard_error", "lower", "upper"], lines));
}
