/** The rows and the columns of the table: what stands in them, in which order. Fields fall into them, or go there by buttons. */

import { element } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { dragging } from "./fields.js";

/** @typedef {import("./choices.js").Choices} Choices */
/** @typedef {import("./choices.js").Zone} Zone */

/**
 * @param {Choices} choices
 * @param {import("./catalogue.js").Catalogue} catalogue
 */
export function zoneBoxes(choices, catalogue) {
  return [zoneBox("rows", say("Rows"), choices, catalogue), zoneBox("columns", say("Columns"), choices, catalogue)];
}

/**
 * @param {Zone} zone
 * @param {string} title
 * @param {Choices} choices
 * @param {import("./catalogue.js").Catalogue} catalogue
 */
function zoneBox(zone, title, choices, catalogue) {
  const names = choices.parts[zone];
  const box = element("div", {
    class: "zone panel", id: `zone-${zone}`, role: "group", "aria-label": title,
    ondragover: (event) => {
      if (dragging.name === "") return;
      event.preventDefault();
      box.classList.add("over");
    },
    ondragleave: (event) => {
      if (!box.contains(event.relatedTarget)) box.classList.remove("over");
    },
    ondrop: (event) => {
      event.preventDefault();
      box.classList.remove("over");
      if (dragging.name !== "") choices.put(dragging.name, zone, placeAt(box, event.clientX, event.clientY));
      dragging.name = "";
    },
  },
  element("h2", {}, title),
  names.length === 0
    ? element("p", { class: "quiet" }, zone === "rows" ? say("One row: everything together. Drag fields here, or press their buttons.") : say("One column. Drag fields here, or press their buttons."))
    : element("ul", { class: "chips" }, ...names.map((name, place) => chip(name, place, zone, choices, catalogue.title(name)))));
  return box;
}

/**
 * @param {string} name
 * @param {number} place
 * @param {Zone} zone
 * @param {Choices} choices
 * @param {string} title
 */
function chip(name, place, zone, choices, title) {
  const other = zone === "rows" ? "columns" : "rows";
  const button = (/** @type {string} */ id, /** @type {string} */ sign, /** @type {string} */ words, /** @type {() => void} */ onclick) =>
    element("button", { type: "button", id: `${zone}-${place}-${id}`, "aria-label": words, title: words, onclick }, sign);
  return element("li", {
    class: "chip", draggable: "true",
    ondragstart: (event) => {
      dragging.name = name;
      event.dataTransfer.setData("text/plain", name);
      event.dataTransfer.effectAllowed = "move";
    },
    ondragend: () => { dragging.name = ""; },
  },
  element("span", {}, title),
  place > 0 ? button("earlier", "←", say("Move {field} before the one before it", { field: title }), () => choices.put(name, zone, place - 1)) : null,
  button("other", zone === "rows" ? "→|" : "↓", other === "rows" ? say("Move {field} to the rows", { field: title }) : say("Move {field} to the columns", { field: title }), () => choices.put(name, other)),
  button("out", "×", say("Take {field} out", { field: title }), () => choices.takeOut(name)));
}

/**
 * The place of a zone at a point: before the first chip whose middle is behind it.
 * @param {HTMLElement} box
 * @param {number} x
 * @param {number} y
 */
function placeAt(box, x, y) {
  const boxes = [...box.querySelectorAll(".chip")].map((one) => one.getBoundingClientRect());
  const place = boxes.findIndex((one) => y < one.top || (y <= one.bottom && x < one.left + one.width / 2));
  return place < 0 ? boxes.length : place;
}
