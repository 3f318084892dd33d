/** The questions of a step as elements of a form, and the answers that stand in them. */

import { element } from "../parts/elements.js";
import { say } from "../parts/language.js";

/**
 * @typedef {object} Question
 * @property {string} name
 * @property {string} label
 * @property {"text" | "choice" | "several" | "table"} kind
 * @property {string} help
 * @property {[string, string][]} choices  value and words
 * @property {[string, string][]} rows  of a table
 * @property {Question[]} columns  of a table
 * @property {any} value
 * @property {boolean} settles  whether other questions follow from the answer
 */

/**
 * The element of a question.
 * @param {Question} question
 * @param {() => void} lookAgain  called when an answer changes what can be asked
 * @returns {HTMLElement}
 */
export function questionElement(question, lookAgain) {
  const help = question.help ? element("p", { class: "help", id: `${question.name}-help` }, question.help) : null;
  if (question.kind === "several") {
    return element("fieldset", { class: "question" }, element("legend", {}, question.label), help,
      element("div", { class: "ticks" }, ...question.choices.map(([value, words], i) =>
        element("label", { for: `${question.name}-${i}` },
          element("input", { type: "checkbox", id: `${question.name}-${i}`, name: question.name, value, checked: question.value.includes(value) }), words))));
  }
  if (question.kind === "table") return tableElement(question, help);
  const id = `field-${question.name}`;
  return element("div", { class: "question" }, element("label", { for: id }, question.label),
    control(question, question.value, { id, name: question.name, ...(help ? { "aria-describedby": `${question.name}-help` } : {}) }, lookAgain),
    help, suggestions(question, id));
}

/**
 * @param {Question} question
 * @param {HTMLElement | null} help
 */
function tableElement(question, help) {
  return element("fieldset", { class: "question" }, element("legend", {}, question.label), help,
    element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": question.label }, element("table", {},
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, element("span", { class: "unseen" }, say("row"))),
        ...question.columns.map((column) => element("th", { scope: "col" }, column.label)))),
      element("tbody", {}, ...question.rows.map(([row, words]) => element("tr", {}, element("th", { scope: "row" }, words),
        ...question.columns.map((column) => element("td", { "data-label": column.label },
          control(column, cellIn(question.value, row, column.name), {
            id: `${question.name}-${row}-${column.name}`, "data-table": question.name, "data-row": row, "data-column": column.name,
            "aria-label": `${words}: ${column.label}`,
          }, () => {})))))))),
    ...question.columns.filter((column) => column.help).map((column) => element("p", { class: "help" }, `${column.label}: ${column.help}`)));
}

/**
 * @param {Record<string, Record<string, string>>} table
 * @param {string} row  any name, also one that objects have of themselves, such as constructor
 * @param {string} column
 */
function cellIn(table, row, column) {
  return Object.hasOwn(table, row) && Object.hasOwn(table[row], column) ? table[row][column] : "";
}

/**
 * @param {Question} question
 * @param {string} value
 * @param {import("../parts/elements.js").Attributes} attributes
 * @param {() => void} lookAgain
 */
function control(question, value, attributes, lookAgain) {
  if (question.kind === "choice") {
    // An answer whose file cannot be read at the moment stays, as its choices come back with the file.
    const choices = question.choices.some(([key]) => key === value) ? question.choices : [...question.choices, [value, value]];
    const select = element("select", attributes, ...choices.map(([key, words]) => element("option", { value: key, selected: key === value }, words)));
    select.value = value;
    return select;
  }
  return element("input", {
    type: "text", value, autocomplete: "off", spellcheck: "false", ...attributes,
    ...(question.choices.length > 0 ? { list: `${attributes.id}-list` } : {}), ...(question.settles ? { onchange: lookAgain } : {}),
  });
}

/**
 * @param {Question} question
 * @param {string} id
 */
function suggestions(question, id) {
  if (question.kind !== "text" || question.choices.length === 0) return null;
  return element("datalist", { id: `${id}-list` }, ...question.choices.map(([value, words]) => element("option", { value }, words === value ? null : words)));
}

/**
 * The answers in a form.
 * @param {HTMLFormElement} form
 * @param {Question[]} questions
 * @returns {Record<string, any>}
 */
export function answersIn(form, questions) {
  /** @type {Record<string, any>} */
  const answers = {};
  for (const question of questions) {
    if (question.kind === "several") {
      answers[question.name] = [...form.querySelectorAll(`input[name="${question.name}"]:checked`)].map((box) => /** @type {HTMLInputElement} */ (box).value);
    } else if (question.kind === "table") {
      answers[question.name] = tableAnswers(form, question.name);
    } else {
      const field = form.elements.namedItem(question.name);
      if (field instanceof HTMLInputElement || field instanceof HTMLSelectElement) answers[question.name] = field.value;
    }
  }
  return answers;
}

/**
 * @param {HTMLFormElement} form
 * @param {string} name
 */
function tableAnswers(form, name) {
  /** @type {Record<string, Record<string, string>>} */
  const table = Object.create(null); // a row may be called __proto__
  for (const cell of form.querySelectorAll("[data-table]")) {
    const { table: of, row, column } = /** @type {HTMLElement} */ (cell).dataset;
    if (of === name && row !== undefined && column !== undefined) {
      table[row] = { ...table[row], [column]: /** @type {HTMLInputElement | HTMLSelectElement} */ (cell).value };
    }
  }
  return table;
}
