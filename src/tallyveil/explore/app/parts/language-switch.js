/** The language of a page that belongs to no release: the one that was chosen before, or that of the reader's browser. */

import { element } from "./elements.js";
import { say } from "./language.js";
import { stored } from "./stored.js";

const KEY = "tallyveil-language";
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
  const list = element("select", { id: "language", onchange: () => { stored()?.setItem(KEY, list.value); chosen(); } },
    ...NAMES.map(([tag, name]) => element("option", { value: tag, lang: tag, selected: tag === chosenLanguage() }, name)));
  return element("label", { class: "theme" }, element("span", {}, say("Language")), list);
}
