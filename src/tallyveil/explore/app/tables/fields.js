/** The fields of a release: what can make rows and columns, and which levels are counted. By pointer and by keyboard. */

import { element, isOpen } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { levelTitle } from "../explorer/site.js";

/** @typedef {import("./catalogue.js").Field} Field */
/** @typedef {import("./catalogue.js").Grouping} Grouping */
/** @typedef {import("./choices.js").Choices} Choices */

const MOST_TICKS = 8; // levels that are ticked without a choice of the first and the last
const SPAN = 3; // levels in a row that a question writes as a span

/** What is dragged now: browsers give its text to the place where it falls only. */
export const dragging = { name: "" };

/** The groupings that were chosen for fields that are not in the table, by the field. @type {Map<string, string>} */
const preferred = new Map();

/**
 * The grouping in which a field is, or would be, in the table.
 * @param {Field} field
 * @param {Choices} choices
 * @returns {Grouping}
 */
export function groupingOf(field, choices) {
  return field.groupings.find(({ name }) => choices.zoneOf(name) !== null)
    ?? field.groupings.find(({ name }) => name === preferred.get(field.id)) ?? field.groupings[0];
}

/**
 * The card of an attribute.
 * @param {Field} field
 * @param {Choices} choices
 * @param {() => void} again shows the cards again
 */
export function attributeCard(field, choices, again) {
  const grouping = groupingOf(field, choices);
  const conditions = choices.question.where.filter(({ name }) => field.groupings.some((one) => one.name === name));
  const shown = conditions.length > 0 ? field.groupings.filter(({ name }) => conditions.some((one) => one.name === name)) : [grouping];
  return element("div", { class: "field-card panel" },
    ...fieldHead(field, choices, again),
    ...shown.map((one) => filter(field, one, choices)));
}

/**
 * The title of a field, by which it is dragged, its groupings, and the buttons that do the same.
 * @param {Field} field
 * @param {Choices} choices
 * @param {() => void} again
 */
export function fieldHead(field, choices, again) {
  const grouping = groupingOf(field, choices);
  const zone = choices.zoneOf(grouping.name);
  const select = element("select", {
    id: `${field.id}-grouping`, "aria-label": say("{field}: by", { field: field.title }),
    onchange: () => {
      preferred.set(field.id, select.value);
      if (zone === null) again();
      else choices.put(select.value, zone, choices.parts[zone].findIndex((name) => name === grouping.name));
    },
  }, ...field.groupings.map(({ name, title }) => element("option", { value: name, selected: name === grouping.name }, title)));
  select.value = grouping.name;
  const button = (/** @type {import("./choices.js").Zone} */ side, /** @type {string} */ text) => element("button", {
    type: "button", id: `${field.id}-${side}`, "aria-pressed": String(zone === side), "aria-label": side === "rows" ? say("{field} in the rows", { field: field.title }) : say("{field} in the columns", { field: field.title }),
    onclick: () => zone === side ? choices.takeOut(grouping.name) : choices.put(grouping.name, side),
  }, text);
  return [
    element("div", { class: "field-top" },
      element("h3", {
        class: "handle", draggable: "true", title: say("Drag it to the rows or the columns"),
        ondragstart: (event) => {
          dragging.name = grouping.name;
          event.dataTransfer.setData("text/plain", grouping.name);
          event.dataTransfer.effectAllowed = "move";
        },
        ondragend: () => { dragging.name = ""; },
      }, field.title),
      button("rows", say("Rows")), button("columns", say("Columns"))),
    field.groupings.length > 1 ? select : null,
  ];
}

/**
 * Which levels are counted.
 * @param {Field} field
 * @param {Grouping} grouping
 * @param {Choices} choices
 */
function filter(field, grouping, choices) {
  const { levels, labels, name } = grouping;
  const condition = choices.question.where.find((one) => one.name === name) ?? null;
  const ticked = new Set(condition === null ? levels : labelsOf(condition, levels));
  const id = `${field.id}-${field.groupings.indexOf(grouping)}`;
  const take = (/** @type {Set<string>} */ chosen) => {
    const places = levels.flatMap((level, place) => chosen.has(level) ? [place] : []);
    if (places.length === 0) return; // nothing would be counted: the last tick stays
    const [first, last] = [places[0], places[places.length - 1]];
    const isSpan = last - first + 1 === places.length && places.length >= SPAN;
    choices.count(name, places.length === levels.length ? [] : isSpan ? [levels[first], levels[last]] : places.map((place) => levels[place]), isSpan);
  };
  const summary = condition === null ? say("Count only some") : say("Only {levels}", { levels: said(condition, grouping) });
  return element("details", { class: "filter", id: `${id}-levels`, open: isOpen(`${id}-levels`) },
    element("summary", { id: `${id}-filter` }, summary),
    levels.length > MOST_TICKS ? span(id, grouping, ticked, take) : null,
    element("div", { class: "ticks", role: "group", "aria-label": say("{field}: levels that are counted", { field: field.title }) },
      ...levels.map((level, place) => element("label", { for: `${id}-level-${place}` },
        element("input", {
          type: "checkbox", id: `${id}-level-${place}`, checked: ticked.has(level),
          onchange: (event) => {
            // All ticks as they stand now: a quick reader ticks again before the page shows the tick before.
            const ticks = event.target.closest(".ticks").querySelectorAll("input");
            const chosen = new Set(levels.filter((_, tick) => ticks[tick].checked));
            if (chosen.size === 0) event.target.checked = true;
            take(chosen);
          },
        }), labels[place]))),
    condition === null ? null : element("button", { type: "button", id: `${id}-all`, onclick: () => choices.count(name, []) }, say("Count all")));
}

/**
 * The first and the last level that are counted, for attributes with many.
 * @param {string} id
 * @param {Grouping} grouping
 * @param {Set<string>} ticked
 * @param {(chosen: Set<string>) => void} take
 */
function span(id, { levels, labels, title }, ticked, take) {
  const places = levels.flatMap((level, place) => ticked.has(level) ? [place] : []);
  const choice = (/** @type {string} */ end, /** @type {number} */ at) => {
    const select = element("select", { id: `${id}-${end}`, "aria-label": `${title}: ${end === "from" ? say("from") : say("to")}`, onchange: change },
      ...labels.map((label, place) => element("option", { value: place, selected: place === at }, label)));
    select.value = String(at);
    return select;
  };
  const from = choice("from", places[0]);
  const to = choice("to", places[places.length - 1]);
  function change() {
    const [first, last] = [Number(from.value), Number(to.value)].sort((one, other) => one - other);
    take(new Set(levels.slice(first, last + 1)));
  }
  return element("div", { class: "row span" }, element("span", { class: "quiet" }, say("from")), from, element("span", { class: "quiet" }, say("to")), to);
}

/**
 * The labels of a condition, one by one.
 * @param {import("./grammar.js").Condition} condition
 * @param {string[]} levels
 */
function labelsOf({ labels, span: isSpan }, levels) {
  if (!isSpan) return labels;
  const [first, last] = labels.map((label) => levels.indexOf(label));
  return levels.slice(first, last + 1);
}

/**
 * @param {import("./grammar.js").Condition} condition
 * @param {Grouping} grouping
 */
function said({ labels, span: isSpan }, grouping) {
  const titles = labels.map((label) => grouping.labels[grouping.levels.indexOf(label)] ?? levelTitle(label));
  if (isSpan) return say("{low} to {high}", { low: titles[0], high: titles[1] });
  return titles.length > 4 ? say("{levels} and {number} more", { levels: titles.slice(0, 3).join(", "), number: titles.length - 3 }) : titles.join(", ");
}
