/** Ask the program that serves this page. */

import { say } from "../parts/language.js";

/**
 * @typedef {object} Answer
 * @property {string[]} keys columns that say what a row is
 * @property {Record<string, any[]>} columns
 * @property {number} rows of the whole answer, of which the columns may have only the first
 * @property {(string | null)[] | null} names of the areas of the rows
 * @property {string} covers
 * @property {number} limit
 * @property {boolean} is_counts
 * @property {string[]} endings of the files that can hold it
 */

/**
 * @typedef {object} Asking what every message about a question says
 * @property {string} question
 * @property {number} level
 * @property {number | null} threshold
 * @property {string | null} plan
 */

/** What is wrong with a question, in the words of the program. */
export class Problem extends Error {}

/**
 * @param {Record<string, unknown>} message
 * @returns {Promise<any>}
 * @throws {Problem}
 */
async function post(message) {
  const response = await fetch("ask", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(message) })
    .catch(() => null);
  if (!response?.ok) throw new Problem(say("The program that serves this page does not answer. Start it again: tallyveil explore RUN --open."));
  const answer = await response.json();
  if (answer.problem !== "") throw new Problem(answer.problem);
  return answer;
}

/**
 * Make ready for questions, which takes seconds for a large release.
 * @returns {Promise<{release: string}>}
 */
export function begin() {
  return post({ ask: "begin" });
}

/**
 * @param {Asking} asking
 * @param {string | null} language in which areas are named
 * @returns {Promise<Answer>}
 */
export function answerOf(asking, language) {
  return post({ ask: "answer", ...asking, language });
}

/**
 * The answer as a file, as the command writes it.
 * @param {Asking} asking
 * @param {string} ending
 * @param {string | null} language of the labels of the file
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function fileOf(asking, ending, language) {
  const { content } = await post({ ask: "file", ending, ...asking, language });
  return Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
}

/**
 * Give a file of areas.
 * @param {File} file
 * @returns {Promise<{plan: string, areas: number}>}
 */
export async function givePlan(file) {
  const address = await new Promise((done, failed) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => done(String(reader.result)));
    reader.addEventListener("error", () => failed(new Problem(say("The browser cannot read the file."))));
    reader.readAsDataURL(file);
  });
  return post({ ask: "plan", name: file.name, content: address.slice(address.indexOf(",") + 1) });
}
