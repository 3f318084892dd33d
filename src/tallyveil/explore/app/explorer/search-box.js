/** The search box: a combobox with a list of areas, for the keyboard, the pointer and screen readers. */

import { say } from "../parts/language.js";
import { element, refill } from "../parts/elements.js";
import { shown } from "../parts/shown.js";
import { areaTitle } from "./area.js";
import { kindTitle } from "./site.js";

/** @typedef {import("./area.js").Area} Area */

const WAIT = 120; // milliseconds after a key before the search begins

/**
 * @param {object} options
 * @param {string} options.id
 * @param {string} options.label
 * @param {string} [options.placeholder]
 * @param {(text: string) => Promise<Area[]>} options.find
 * @param {(area: Area) => void} options.choose
 * @returns {HTMLElement}
 */
export function searchBox({ id, label, placeholder, find, choose }) {
  const list = element("ul", { id: `${id}-list`, class: "found", role: "listbox", "aria-label": label, hidden: true });
  const status = element("span", { class: "unseen", role: "status" });
  const input = element("input", {
    id, type: "search", role: "combobox", autocomplete: "off", spellcheck: "false", placeholder: placeholder ?? null,
    "aria-expanded": "false", "aria-controls": list.id, "aria-autocomplete": "list",
    oninput: () => { clearTimeout(waiting); waiting = setTimeout(search, WAIT); },
    onkeydown: key,
    onblur: () => setTimeout(close, 150), // after a click on an option
  });
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let waiting;
  /** @type {Area[]} */
  let found = [];
  let active = -1;
  let asked = 0;

  async function search() {
    const mine = ++asked;
    const text = input.value;
    const areas = await find(text);
    if (mine !== asked) return;
    found = areas;
    active = -1;
    refill(list, ...areas.map(option));
    if (areas.length === 0) refill(list, element("li", { class: "nothing", role: "presentation" }, say("No area has this name or geocode.")));
    list.hidden = text.trim() === "";
    input.setAttribute("aria-expanded", String(!list.hidden && areas.length > 0));
    input.removeAttribute("aria-activedescendant");
    status.textContent = list.hidden ? "" : say("{number} areas found.", { number: areas.length });
  }

  /**
   * @param {Area} area
   * @param {number} place
   */
  function option(area, place) {
    const kind = area.name === null ? kindTitle(area.kind) : `${kindTitle(area.kind)} ${shown(area.geocode)}`;
    return element("li", { id: `${id}-option-${place}`, role: "option", "aria-selected": "false", onmousedown: (event) => event.preventDefault(), onclick: () => take(place) },
      element("span", {}, area.name === null ? shown(area.geocode) : areaTitle(area)), element("span", {}, kind));
  }

  /** @param {number} place */
  function take(place) {
    const area = found[place];
    close();
    input.value = "";
    choose(area);
  }

  function close() {
    asked++;
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  /** @param {number} place */
  function mark(place) {
    active = place;
    list.querySelectorAll("[role=option]").forEach((one, at) => {
      one.setAttribute("aria-selected", String(at === place));
      if (at === place) one.scrollIntoView({ block: "nearest" });
    });
    input.setAttribute("aria-activedescendant", `${id}-option-${place}`);
  }

  /** @param {KeyboardEvent} event */
  async function key(event) {
    if (event.key === "Escape") {
      close();
    } else if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(waiting);
      if (list.hidden || found.length === 0) await search();
      if (found.length > 0) take(Math.max(active, 0));
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && found.length > 0 && !list.hidden) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      mark(active < 0 && step < 0 ? found.length - 1 : (active + step + found.length) % found.length);
    }
  }

  return element("div", { class: "search" }, element("label", { for: id, class: "unseen" }, label), input, list, status);
}
