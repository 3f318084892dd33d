/** A button that copies a text. */

import { element } from "./elements.js";
import { say } from "./language.js";

const SAID = 2000; // milliseconds for which the button says that it has copied

/**
 * @param {string} id
 * @param {string} words
 * @param {() => string} text
 * @returns {HTMLButtonElement | null} null where the browser does not let pages copy, as on sites without https
 */
export function copyButton(id, words, text) {
  if (!navigator.clipboard) return null;
  const button = element("button", { type: "button", id, onclick: async () => {
    await navigator.clipboard.writeText(text());
    button.textContent = say("Copied");
    setTimeout(() => { button.textContent = words; }, SAID);
  } }, words);
  return button;
}
