/** The switch between light and dark. Without a choice, the page follows the reader's system. */

import { element } from "./elements.js";
import { phrase, say } from "./language.js";
import { stored } from "./stored.js";

const KEY = "tallyveil-theme";
const CHOICES = /** @type {const} */ (["system", "light", "dark"]);
const NAMES = { system: phrase("System"), light: phrase("Light"), dark: phrase("Dark") };

/** @typedef {typeof CHOICES[number]} Theme */

/**
 * Whether the page is dark now.
 * @returns {boolean}
 */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/**
 * Call a function whenever the page turns light or dark.
 * @param {() => void} listener
 */
export function onTheme(listener) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", listener);
  document.addEventListener("themechange", listener);
}

/**
 * A list of choices for the head of the page, which remembers the reader's choice.
 * @returns {HTMLLabelElement}
 */
export function themeSwitch() {
  const options = CHOICES.map((choice) =>
    element("option", { value: choice }, say(NAMES[choice])));
  const list = element("select", { id: "theme", onchange: () => choose(/** @type {Theme} */ (list.value)) }, ...options);
  list.value = remembered();
  apply(remembered());
  return element("label", { class: "theme" }, element("span", {}, say("Colours")), list);
}

/** @param {Theme} theme */
function choose(theme) {
  stored()?.setItem(KEY, theme);
  apply(theme);
  document.dispatchEvent(new Event("themechange"));
}

/** @returns {Theme} */
function remembered() {
  const before = stored()?.getItem(KEY);
  return CHOICES.find((choice) => choice === before) ?? "system";
}

/** @param {Theme} theme */
function apply(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
