/** What the address asks: a question, and how its answer is shown. */

import { phrase } from "../parts/language.js";
import { readState, writeState } from "../parts/link-state.js";
import { emptyQuestion, questionText, readQuestion } from "./grammar.js";

/** @typedef {import("./grammar.js").Question} Question */
/** @typedef {import("./catalogue.js").Catalogue} Catalogue */

/**
 * @typedef {object} Asked
 * @property {string} text the question in words
 * @property {Question | null} question null if the words have not the form of a question
 * @property {number} columns how many of the last names of the question make columns
 * @property {string} level
 * @property {string} threshold empty without one
 * @property {string} plan digest of a file of areas; empty without one
 * @property {string} file its name
 * @property {string} cells what the cells show
 * @property {string} sort the column and its direction, such as 2-; empty for the order of the answer
 * @property {boolean} chart
 */

/** What the cells of an answer can show. @type {[string, string][]} */
export const CELLS = [["published", phrase("Published, with interval")], ["estimate", phrase("Estimate, with standard error")], ["all", phrase("All columns")]];

const MOST_BEGUN = 2000; // areas of the first table that is shown

/**
 * @param {Catalogue} catalogue
 * @returns {Asked}
 */
export function readAsked(catalogue) {
  const state = readState();
  const text = state.ask ?? questionText(firstQuestion(catalogue));
  /** @type {Question | null} */
  let question = null;
  try {
    question = readQuestion(text);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
  }
  const names = (question?.by.length ?? 0) - (question?.measure ? 1 : 0);
  const columns = Math.max(0, Math.min(Number.parseInt(state.columns ?? "0", 10) || 0, names));
  return {
    text, question, columns,
    level: state.level ?? "0.95",
    threshold: state.threshold ?? "",
    plan: state.plan ?? "",
    file: state.file ?? "",
    cells: CELLS.map(([value]) => value).find((value) => value === state.cells) ?? CELLS[0][0],
    sort: /^\d+[+-]$/.test(state.sort ?? "") ? state.sort : "",
    chart: state.chart === "1",
  };
}

/**
 * Ask something else. The way in which an answer is shown stays.
 * @param {Question} question
 * @param {number} columns
 */
export function askQuestion(question, columns) {
  writeState({ ask: questionText(question), columns: columns > 0 ? String(columns) : null, sort: null });
}

/**
 * The parts of a question's rows and columns: what a measure is of comes before them.
 * @param {Asked} asked
 */
export function partsOf({ question, columns }) {
  const { by, measure } = question ?? emptyQuestion();
  const first = measure ? 1 : 0;
  return { measured: by.slice(0, first), rows: by.slice(first, by.length - columns), columns: by.slice(by.length - columns) };
}

/**
 * The total of the coarsest areas that are several.
 * @param {Catalogue} catalogue
 */
function firstQuestion(catalogue) {
  const kinds = catalogue.fields[0].groupings.filter(({ kind }) => kind && kind.n > 1 && kind.n <= MOST_BEGUN);
  return { ...emptyQuestion(), by: kinds.slice(0, 1).map(({ name }) => name) };
}
