/** The card of one area: where it lies, what is published, and what its intervals say. */

import { csvText, download } from "../parts/csv.js";
import { byId, element, refill } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { linkTo, writeState } from "../parts/link-state.js";
import { count, counted, rounded, share } from "../parts/numbers.js";
import { shown } from "../parts/shown.js";
import { ANSWER_HEADINGS, answerRows, answerTable } from "./answer-table.js";
import { areaTitle } from "./area.js";
import { intervalPicture, pictureKey } from "./interval-picture.js";
import { answerOf, answerSentences, EXACT, estimateText, intervalText, isExact, outsideSentence } from "./sentences.js";
import { answerTitle, hasCounts, kindTitle, kindWords, levelTitle, tablesOf, tableTitle } from "./site.js";
import { areaKey } from "./view.js";

/** @typedef {import("./view.js").View} View */
/** @typedef {import("./areas.js").Areas} Areas */
/** @typedef {import("./area.js").Area} Area */
/** @typedef {import("./areas.js").Numbers} Numbers */
/** @typedef {import("../parts/elements.js").Child} Child */

/**
 * Show an area.
 * @param {HTMLElement} place
 * @param {Areas} areas
 * @param {View} view
 */
export async function showCard(place, areas, view) {
  const { area, table } = view;
  const { site } = areas;
  const inBoth = site.compared?.kinds.includes(area.kind.number) ?? false;
  const [above, numbers, other] = await Promise.all([
    areas.ancestors(area),
    areas.numbers(area, table.number),
    inBoth ? areas.numbers(area, table.number, true) : null,
  ]);
  const compared = site.compared && other ? { name: site.compared.name, numbers: other } : null;
  const rows = await answerTable({
    table, numbers, compared, intervals: site.intervals !== null && table.intervals, caption: say("{table} in {area}", { table: tableTitle(table), area: areaTitle(area) }),
    choose: table.answers.length > 1 ? (answer) => answerButton(answerTitle(table, answer), answer, view.answer) : null,
  });
  refill(place,
    crumbs(above, area),
    element("div", { class: "area-head" },
      element("h1", { id: "area-title", tabindex: -1 }, areaTitle(area)), element("span", { class: "quiet" }, subtitle(area, site))),
    view.missing === null ? null
      : element("p", { class: "note" }, say("This site has no area {area}, which the link names.", { area: shown(view.missing) })),
    element("div", { class: "panel card" },
      tableChoice(areas, view),
      ...headline(areas, view, numbers),
      site.compared && !inBoth
        ? element("p", { class: "note" }, say("The other release, {name}, has no counts of {areas}.", { name: shown(site.compared.name), areas: shown(area.kind.name) })) : null,
      element("div", { class: "actions", id: "area-actions" },
        element("button", { type: "button", onclick: () => save(areas, area, view.table, numbers) }, say("Download as CSV")))));
  showAnswers(byId("answers"), table, table.answers.length > 1 || compared !== null ? rows : null);
}

/**
 * All answers of the table, in a panel of their own.
 * @param {HTMLElement} place
 * @param {import("./site.js").Table} table
 * @param {HTMLElement | null} rows null if the card says it all
 */
function showAnswers(place, table, rows) {
  place.hidden = rows === null;
  refill(place, rows && element("h2", { id: "answers-title" }, say("{table}: all answers", { table: tableTitle(table) })), rows);
}

/**
 * @param {Area[]} above
 * @param {Area} area
 */
function crumbs(above, area) {
  return element("nav", { class: "crumbs", "aria-label": say("Areas above") }, element("ol", {},
    ...above.map((one) => element("li", {}, element("a", { href: linkTo({ area: areaKey(one) }) }, areaTitle(one)))),
    element("li", { "aria-current": "page" }, areaTitle(area))));
}

/**
 * @param {Area} area
 * @param {import("./site.js").Site} site
 */
function subtitle(area, site) {
  const code = area.name === null ? "" : `${kindTitle(area.kind)} ${shown(area.geocode)}`;
  const { one, many } = kindWords(site.kinds[site.finest]);
  const size = area.kind.number !== site.finest && area.nFinest > 0 ? counted(area.nFinest, one, many) : "";
  return [code, size].filter((text) => text !== "").join(" · ");
}

/**
 * @param {Areas} areas
 * @param {View} view
 */
function tableChoice(areas, view) {
  const tables = tablesOf(areas.site, view.area.kind.number);
  const list = element("select", { id: "table", onchange: () => writeState({ table: list.value, answer: null }) },
    ...tables.map((one) => element("option", { value: one.name, selected: one === view.table }, tableTitle(one))));
  return element("div", { class: "row" },
    element("label", { class: "field" }, element("span", {}, say("Table")), list), ...levelChoices(view));
}

/**
 * A list for each attribute of the table, which together choose one answer.
 * @param {View} view
 * @returns {HTMLElement[]}
 */
function levelChoices({ table, answer }) {
  const { attributes, factors } = table;
  if (!attributes) return [];
  const chosen = attributes[answer];
  const lists = factors.map((factor, place) => element("select", { id: `factor-${place}`, onchange: choose },
    ...factor.levels.map((level, which) =>
      element("option", { value: level, selected: level === chosen[place] }, levelTitle(factor.labels?.[which] ?? level)))));
  function choose() {
    const found = attributes?.findIndex((levels) => levels.every((level, place) => level === lists[place].value)) ?? -1;
    if (found >= 0) writeState({ answer: String(found) });
  }
  return lists.map((list, place) =>
    element("label", { class: "field" }, element("span", {}, capital(shown(factors[place].title))), list));
}

/** @param {string} text */
function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * The chosen answer in large figures, sentences and a picture.
 * @param {Areas} areas
 * @param {View} view
 * @param {Numbers} numbers
 * @returns {Child[]}
 */
function headline(areas, view, numbers) {
  const { site } = areas;
  const answer = answerOf(numbers, view.answer);
  const label = view.table.answers.length > 1 ? element("h2", { id: "answer-title" }, answerTitle(view.table, view.answer)) : null;
  const exact = isExact(answer); // three times the same number, and sentences about noise, would say less
  const figures = element("dl", { class: "figures" },
    ...(hasCounts(site) ? [figure("is-published", say("Published count"), count(answer.published), site.unit)] : []),
    ...(site.intervals && view.table.intervals && !exact ? [
      figure("is-interval", say("{level} interval", { level: share(site.intervals.level) }), intervalText(answer), say("of the count before noise")),
      figure("", say("Unbiased estimate"), estimateText(answer), answer.error === null ? "" : say("standard error {number}", { number: rounded(answer.error) })),
    ] : []));
  if (!site.intervals || !view.table.intervals) {
    return [label, figures, element("p", { class: "note" },
      shown(site.no_intervals ?? say("This release has no intervals, so the page shows published counts only.")))];
  }
  if (exact) {
    return [label, figures, element("div", { class: "sentences" }, element("p", {}, say(EXACT)))];
  }
  const picture = intervalPicture(answer);
  const outside = outsideSentence(answer);
  return [label, figures, picture, picture ? pictureKey(hasCounts(site)) : null,
    element("div", { class: "sentences" },
      ...answerSentences(answer, site.unit, site.intervals.level).map((sentence) => element("p", {}, sentence)),
      outside ? element("p", { class: "note" }, outside) : null,
      element("p", { class: "quiet" }, site.intervals.covers))];
}

/**
 * @param {string} kind
 * @param {string} name
 * @param {string} value
 * @param {string} below
 */
function figure(kind, name, value, below) {
  return element("div", { class: `figure ${kind}` },
    element("dt", {}, name), element("dd", {}, value, below ? element("small", {}, below) : null));
}

/**
 * @param {string} label
 * @param {number} answer
 * @param {number} chosen
 */
function answerButton(label, answer, chosen) {
  return element("button", { type: "button", class: "link", "aria-pressed": String(answer === chosen), onclick: () => writeState({ answer: String(answer) }) }, label);
}

/**
 * @param {Areas} areas
 * @param {Area} area
 * @param {import("./site.js").Table} table
 * @param {Numbers} numbers
 */
function save(areas, area, table, numbers) {
  const rows = answerRows(table, numbers, [area.kind.name, area.geocode, area.name ?? ""]);
  download(`${areas.site.name}-${area.kind.name}-${area.geocode}-${table.name}.csv`,
    csvText(["kind", "geocode", "name", ...ANSWER_HEADINGS], rows));
}
