/** What the numbers of the table are: counts, shares, deviations, or a measure of an attribute; and how sure they must be. */

import { element } from "../parts/elements.js";
import { phrase, say } from "../parts/language.js";
import { writeState } from "../parts/link-state.js";
import { COMPARING } from "./grammar.js";

/** @typedef {import("./choices.js").Choices} Choices */
/** @typedef {import("./catalogue.js").Catalogue} Catalogue */
/** @typedef {import("./asked.js").Asked} Asked */

/** @type {[Parameters<Choices["number"]>[0], string][]} */
const NUMBERS = [
  ["count", phrase("Counts")], ["share", phrase("Shares")], ["deviation", phrase("Deviations from the mean of the areas")], ["median", phrase("Median")], ["quantile", phrase("Another quantile")],
  ["entropy", phrase("Entropy: how mixed an area is")], ["dissimilarity", phrase("Dissimilarity: how unevenly groups live")], ["gini", phrase("Gini index of unevenness")],
  ["theil", phrase("Theil's information index")],
];
const LEVELS = [["0.9", "90 %"], ["0.95", "95 %"], ["0.99", "99 %"]];

/**
 * @param {Choices} choices
 * @param {Catalogue} catalogue
 * @param {Asked} asked
 */
export function numbersCard(choices, catalogue, asked) {
  const { question } = choices;
  const [measure, part = ""] = (question.measure ?? "").split(" ");
  const what = measure !== "" ? measure : question.shareOf !== null ? "share" : question.deviation ? "deviation" : "count";
  const select = choice("number", say("Numbers"), NUMBERS.map(([value, words]) => /** @type {[string, string]} */ ([value, say(words)])), what, (value) => choices.number(/** @type {any} */ (value)));
  const attributes = catalogue.fields.slice(1).flatMap((field) => field.groupings.map(({ name }) => /** @type {[string, string]} */ ([name, catalogue.title(name)])));
  const geolevels = catalogue.fields[0].groupings.filter(({ kind }) => kind?.type === "geolevel").map(({ name, title }) => /** @type {[string, string]} */ ([name, title]));
  const known = (/** @type {string} */ name) => catalogue.find(name)?.grouping.name ?? name;
  const levels = LEVELS.some(([value]) => value === asked.level) ? LEVELS : [...LEVELS, [asked.level, asked.level]];
  return element("div", { class: "field-card panel" },
    element("h3", {}, say("Numbers")),
    select,
    measure === "" ? null : choice("measured", say("of"), attributes, known(choices.parts.measured[0] ?? ""), (of) => choices.number(/** @type {any} */ (measure), { of, part })),
    measure === "quantile" ? field("part", say("Part of the people below it"), part, (value) => choices.number("quantile", { part: value })) : null,
    COMPARING.includes(measure) ? choice("across", say("compared across"), geolevels, known(question.across ?? ""), (across) => choices.number(/** @type {any} */ (measure), { across })) : null,
    what === "share" ? wholes(choices, catalogue) : null,
    what === "share" || what === "deviation"
      ? field("threshold", what === "share" ? say("Is it above? (such as 0.5; empty for no statement)") : say("Is it within? (such as 0.05; empty for no statement)"), asked.threshold,
        (value) => writeState({ threshold: value.trim() || null })) : null,
    choice("level", say("Coverage of the intervals"), /** @type {[string, string][]} */ (levels), asked.level, (level) => writeState({ level: level === "0.95" ? null : level })));
}

/**
 * What shares are of: the same area, and of the same levels of what is ticked.
 * @param {Choices} choices
 * @param {Catalogue} catalogue
 */
function wholes(choices, catalogue) {
  const { rows, columns } = choices.parts;
  const names = [...rows, ...columns, ...choices.question.where.map(({ name }) => name)].filter((name) => !catalogue.find(name)?.grouping.kind);
  const distinct = [...new Map(names.map((name) => [name.toLowerCase(), name])).values()];
  const kept = (choices.question.shareOf ?? []).map((name) => name.toLowerCase());
  if (distinct.length === 0) return element("p", { class: "quiet" }, say("Put an attribute into the table, or count only some of its levels: shares are of everybody in the area."));
  return element("div", {},
    element("p", { class: "quiet" }, say("Shares of everybody in the area; or of those who are alike in:")),
    element("div", { class: "ticks", role: "group", "aria-label": say("Shares of those who are alike in") }, ...distinct.map((name, place) =>
      element("label", { for: `whole-${place}` }, element("input", {
        type: "checkbox", id: `whole-${place}`, checked: kept.includes(name.toLowerCase()),
        onchange: (event) => choices.number("share", {
          shareOf: distinct.filter((other) => other === name ? event.target.checked : kept.includes(other.toLowerCase())),
        }),
      }), catalogue.title(name)))));
}

/**
 * @param {string} id
 * @param {string} label
 * @param {[string, string][]} options
 * @param {string} value
 * @param {(value: string) => void} change
 */
export function choice(id, label, options, value, change) {
  const select = element("select", { id, onchange: () => change(select.value) }, ...options.map(([key, words]) => element("option", { value: key, selected: key === value }, words)));
  select.value = value;
  return element("label", { class: "field" }, element("span", {}, label), select);
}

/**
 * @param {string} id
 * @param {string} label
 * @param {string} value
 * @param {(value: string) => void} change
 */
function field(id, label, value, change) {
  const input = element("input", { id, type: "text", inputmode: "decimal", autocomplete: "off", value, onchange: () => change(input.value) });
  return element("label", { class: "field" }, element("span", {}, label), input);
}
