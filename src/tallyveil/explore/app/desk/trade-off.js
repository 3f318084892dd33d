/** The trade-off between errors and what somebody can find out about one person: a picture that can be dragged. */

import { element, refill } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { curvePicture } from "../workbench/panels/plot.js";

/** @typedef {{ factor: string, share: number, right: string, meaning: string, numbers: string }} Choice */
/** @typedef {{ choices: Choice[], wishes: [string, string, number][], units: string }} TradeOff */

const STEPS = [0.5, 0.6, 0.7, 0.8, 0.9, 1];

/** @param {string} text  a whole number or a fraction */
function number(text) {
  const [above, below] = text.split("/").map(Number);
  return below === undefined ? above : above / below;
}

/**
 * @param {TradeOff} trade
 * @param {string} chosen  factor of the choice that was made
 * @param {(factor: string) => void} choose  called when another choice is made
 * @returns {HTMLElement}
 */
export function tradeOffElement(trade, chosen, choose) {
  const { choices, wishes, units } = trade;
  const picture = element("div"), meaning = element("div", { class: "big", "aria-live": "polite" }), table = element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": say("Errors") });
  const slider = element("input", {
    type: "range", min: 0, max: choices.length - 1, step: 1, id: "errors",
    oninput: () => show(Number(slider.value)), onchange: () => choose(choices[Number(slider.value)].factor),
  });
  /** @param {number} place */
  function show(place) {
    const choice = choices[place], factor = number(choice.factor);
    slider.value = String(place);
    slider.setAttribute("aria-valuetext", say("errors {compared}: at most {right} of guesses are right", { compared: words(factor), right: choice.right }));
    refill(picture, curvePicture(
      { title: say("errors, compared with your wishes"), ticks: choices.map((one) => number(one.factor)).filter((tick) => tick >= 0.5 && [0.5, 1, 1.5, 2, 3].includes(tick)), log: false, text: (value) => `× ${decimal(value)}` },
      { title: say("right guesses, at most"), ticks: STEPS, log: false, text: (value) => `${Math.round(100 * value)} %` },
      [{ kind: "now", points: choices.map((one) => [number(one.factor), one.share]) }],
      [{ kind: "now", at: [factor, choice.share], label: choice.right, above: true }]));
    refill(meaning, element("p", {}, choice.meaning), element("p", { class: "quiet" }, choice.numbers));
    refill(table, element("table", {}, element("caption", {}, say("How far counts are from the true ones at most, in 95 of 100 cases ({units})", { units })),
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, say("table")), element("th", { scope: "col" }, say("areas")),
        element("th", { scope: "col", class: "number" }, say("wished")), element("th", { scope: "col", class: "number" }, say("chosen")))),
      element("tbody", {}, ...wishes.map(([name, level, within]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, level),
        element("td", { class: "number" }, `± ${decimal(within)}`), element("td", { class: "number" }, `± ${decimal(within * factor)}`))))));
  }
  // The picture follows a finger or a mouse; the slider below it does the same by keyboard.
  /** @param {PointerEvent} event */
  const drag = (event) => {
    if (event.buttons === 0) return;
    const box = picture.getBoundingClientRect(), factors = choices.map((one) => number(one.factor));
    const at = factors[0] + ((event.clientX - box.left) / box.width * 460 - 70) / (460 - 92) * (factors[factors.length - 1] - factors[0]);
    show(factors.reduce((best, factor, i) => (Math.abs(factor - at) < Math.abs(factors[best] - at) ? i : best), 0));
  };
  picture.addEventListener("pointerdown", drag);
  picture.addEventListener("pointermove", drag);
  picture.addEventListener("pointerup", () => choose(choices[Number(slider.value)].factor));
  show(Math.max(0, choices.findIndex((one) => one.factor === chosen)));
  return element("div", {}, meaning, element("div", { class: "trade" },
    element("div", {}, picture, element("label", { for: "errors" }, say("Smaller errors, or better protection: drag")), slider), table));
}

/** @param {number} factor */
function words(factor) {
  return factor === 1 ? say("as you wished") : say("{factor} times as large", { factor: decimal(factor) });
}

/** @param {number} value */
function decimal(value) {
  return value.toLocaleString(document.documentElement.lang, { maximumSignificantDigits: 3 });
}
