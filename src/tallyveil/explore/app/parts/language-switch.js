/** The language of a page that belongs to no release: the one that was chosen before, or that of the reader's browser. */

import { element } from "./elements.js";
import { say } from "./language.js";
import { stored } from "./stored.js";

const KEY = "tallyveil-language";
/** @type {[string, string][]} */
const NAMES = [["en", "English"], ["de", "Deutsch"], ["fr", "Français"]];

/** @returns {string} */
export function chosenLanguage() {
  const wished = [stored()?.getItem(KEY), ...navigator.languages].map((tag) => (tag ?? "").split("-")[0]);
  return wished.find((tag) => NAMES.some(([known]) => known === tag)) ?? "en";
}

/**
 * @param {() => void} chosen  called when another language was chosen
 * @returns {HTMLLabelElement}
 */
export function languageSwitch(chosen) {
  return languageList(NAMES, chosenLanguage(), (tag) => { stored()?.setItem(KEY, tag); chosen(); });
}

/**
 * A list of languages for the head of a page.
 * @param {[string, string][]} names  tag and name of each
 * @param {string | undefined} current  tag of the one that the page has
 * @param {(tag: string) => void} chosen  called when another one was chosen
 * @returns {HTMLLabelElement}
 */
export function languageList(names, current, chosen) {
  const list = element("select", { id: "language", onchange: () => chosen(list.value) },
    ...names.map(([tag, name]) => element("option", { value: tag, lang: tag, selected: tag === current }, name)));
  return element("label", { class: "theme" }, element("span", {}, say("Language")), list);
}
