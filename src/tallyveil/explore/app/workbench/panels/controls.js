/** The sliders of budget and shares. Each has a field for the same number. */

import { element, refill, svgElement } from "../../parts/elements.js";
import { figure, say } from "../../parts/language.js";
import { shown } from "../../parts/shown.js";
import { over, parsed, toNumber, toText } from "../fractions.js";
import { STEPS } from "../shares.js";
import { isBudget } from "../state.js";
import { deviation } from "../text.js";

/** @typedef {import("../state.js").PlanState} PlanState */
/** @typedef {import("../state.js").Noise} Noise */
/** @typedef {import("../shares.js").Shares} Shares */

const POSITIONS = 1000; // of a share's slider; a share is the square of its position, so that small ones can be set
const BUDGET_POSITIONS = 150; // to either side of the given budget
const BUDGET_STEPS = 75; // positions for a factor of ten

export class Controls {
  /**
   * @param {Element} place
   * @param {PlanState} state
   * @param {{ changed: () => void, forEpsilon: (epsilon: number) => Promise<boolean>, levelChosen: () => void }} acts
   */
  constructor(place, state, acts) {
    this.place = place;
    this.state = state;
    this.acts = acts;
    this.level = 0;
    const { given } = state, unit = state.isGaussian ? "rho" : "epsilon";
    this.budget = this.budgetRow(unit);
    this.declared = element("p", { class: "quiet" });
    this.levels = new ShareRows(state.geolevels, say("of the budget"), say("geolevels"), () => this.acts.changed());
    this.queryPlace = element("div");
    this.resetPlace = element("span");
    this.levelList = element("select", { id: "level", onchange: () => this.choose(Number(this.levelList.value)) },
      ...given.geolevels.map((level, i) => element("option", { value: i }, shown(level.name))));
    refill(place,
      element("h2", { id: "controls-title" }, say("Budget and shares")),
      this.budget.row, this.declared, ...(state.isGaussian ? [this.targetRow()] : []),
      element("div", { class: "row between" }, element("h3", {}, say("Geolevels")), this.levels.reset), this.levels.element,
      element("div", { class: "row between" }, element("h3", { id: "queries-title" }, say("Queries")),
        element("label", { class: "field" }, say("at"), this.levelList), this.resetPlace),
      this.queryPlace,
      element("div", { class: "row" },
        element("button", { type: "button", id: "reset", onclick: () => { state.reset(); this.acts.changed(); } }, say("Back to the file")),
        element("a", { class: "button", href: "#download-title" }, say("Download …"))),
      element("p", { class: "quiet" }, say("When a share moves, the others of its group keep their ratios, and locked ones stay as they are. Shares are exact; they move in steps of 0.001 %.")));
    this.choose(0);
  }

  /** @param {number} level */
  choose(level) {
    this.level = level;
    this.levelList.value = String(level);
    const { name } = this.state.given.geolevels[level];
    this.queries = new ShareRows(this.state.queries[level], say("at {geolevel}", { geolevel: shown(name) }), say("queries at {geolevel}", { geolevel: shown(name) }), () => this.acts.changed());
    refill(this.queryPlace, this.queries.element);
    refill(this.resetPlace, this.queries.reset);
    this.acts.levelChosen();
  }

  /**
   * Show the numbers of the plan.
   * @param {Noise[]} noise
   */
  show(noise) {
    const { state } = this, unit = state.isGaussian ? "rho" : "epsilon";
    this.budget.show();
    this.levels.show();
    const own = noise.filter((one) => one.geolevel === state.given.geolevels[this.level].name);
    this.queries?.show(own.map((one) => `± ${deviation(Math.sqrt(one.variance))}`));
    refill(this.declared, state.isAboveDeclared
      ? say("More than the file declares ({budget}). The downloaded file declares the larger budget, which is for policy to decide.", { budget: `${unit} = ${brief(toText(state.declared))}` })
      : say("The file declares {budget}.", { budget: `${unit} = ${brief(toText(state.declared))}` }));
    this.declared.classList.toggle("above", state.isAboveDeclared);
  }

  /** @param {string} unit */
  budgetRow(unit) {
    const { state } = this;
    const range = element("input", {
      type: "range", id: "budget", min: -BUDGET_POSITIONS, max: BUDGET_POSITIONS, step: 1,
      oninput: () => { state.total = budgetAt(state.givenTotal, Number(range.value)); this.acts.changed(); },
    });
    const field = element("input", {
      type: "text", id: "budget-exact", class: "exact", inputmode: "decimal", autocomplete: "off", spellcheck: "false",
      "aria-label": say("Total {unit}, as a fraction or decimal", { unit }), onchange: () => {
        const value = parsed(field.value), sound = value !== null && isBudget(value);
        field.setAttribute("aria-invalid", String(!sound));
        if (sound) state.total = value;
        this.acts.changed();
      },
    });
    const reset = resetButton(say("Reset the total {unit}", { unit }), () => { state.total = state.givenTotal; this.acts.changed(); });
    const row = element("div", { class: "slider budget" },
      element("label", { for: "budget" }, say("Total {unit}", { unit })), range, field, reset);
    const show = () => {
      const ratio = toNumber(over(state.total, state.givenTotal));
      range.value = String(Math.round(BUDGET_STEPS * Math.log10(ratio)));
      range.setAttribute("aria-valuetext", `${unit} ${toNumber(state.total).toPrecision(4)}`);
      reset.disabled = ratio === 1;
      if (document.activeElement !== field) field.value = toText(state.total);
    };
    return { row, show };
  }

  /** A field that sets the budget for an epsilon. */
  targetRow() {
    const field = element("input", { type: "number", id: "target", min: 0.01, step: "any", class: "exact" });
    const said = element("span", { class: "quiet", role: "status" });
    const act = async () => {
      const epsilon = Number(field.value);
      refill(said, epsilon > 0 ? "" : say("Give a number above 0."));
      if (epsilon > 0 && !(await this.acts.forEpsilon(epsilon))) refill(said, say("No rho of three decimals gives it."));
    };
    return element("form", { class: "row target", onsubmit: (event) => { event.preventDefault(); act(); } },
      element("label", { for: "target" }, say("Largest rho for epsilon")), field,
      element("button", { type: "submit" }, say("Set")), said);
  }
}

/** The rows of one group of shares. */
class ShareRows {
  /**
   * @param {Shares} shares
   * @param {string} of  what they are shares of, for readers of screens
   * @param {string} group  what the group is called, for readers of screens
   * @param {() => void} changed
   */
  constructor(shares, of, group, changed) {
    this.shares = shares;
    this.reset = resetButton(say("Reset the shares of {group}", { group }), () => { shares.reset(); changed(); });
    this.rows = shares.names.map((name, i) => shareRow(shares, name, i, of, changed));
    this.element = element("div", { class: "sliders" }, ...this.rows.map((row) => row.element));
  }

  /** @param {string[]} [beside]  a text beside each */
  show(beside) {
    this.rows.forEach((row, i) => row.show(this.shares.steps(i), beside?.[i] ?? ""));
    this.reset.disabled = this.shares.isGiven && this.shares.locked.size === 0;
  }
}

let numbered = 0;

/**
 * @param {string} label
 * @param {() => void} act
 */
function resetButton(label, act) {
  return element("button", { type: "button", class: "small", "aria-label": label, onclick: act }, say("Reset"));
}

/** A padlock; its shackle is closed if the button is pressed. */
function lockPicture() {
  return svgElement("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" },
    svgElement("path", { class: "shackle open", d: "M5 7V4.5a3 3 0 0 1 5.6-1.5" }),
    svgElement("path", { class: "shackle closed", d: "M5 7V4.5a3 3 0 0 1 6 0V7" }),
    svgElement("rect", { x: 3, y: 7, width: 10, height: 7, rx: 1.5 }));
}

/**
 * @param {Shares} shares
 * @param {string} name
 * @param {number} place
 * @param {string} of
 * @param {() => void} changed
 */
function shareRow(shares, name, place, of, changed) {
  const id = `share-${++numbered}`, only = shares.names.length === 1;
  const range = element("input", {
    type: "range", id, min: 0, max: POSITIONS, step: 1,
    oninput: () => { shares.move(place, (Number(range.value) / POSITIONS) ** 2 * STEPS); changed(); },
  });
  const field = element("input", {
    type: "number", min: 0.001, max: 100, step: 0.001, class: "percent",
    "aria-label": say("Share of {name} {whole}, in per cent", { name: shown(name), whole: of }),
    onchange: () => {
      if (field.value !== "" && Number(field.value) > 0) shares.move(place, Number(field.value) * (STEPS / 100));
      changed();
    },
  });
  const aside = element("span", { class: "aside" });
  const lock = element("button", {
    type: "button", class: "lock", "aria-label": say("Keep the share of {name} {whole} while others move", { name: shown(name), whole: of }),
    title: say("Keep this share while others move"), onclick: () => { shares.toggleLock(place); changed(); },
  }, lockPicture());
  const row = element("div", { class: "slider" }, element("label", { for: id }, shown(name)), range,
    element("span", { class: "unit" }, field, "%", only ? null : lock), aside);
  return {
    element: row,
    /** @param {number} steps @param {string} beside */
    show: (steps, beside) => {
      range.disabled = field.disabled = shares.most(place) === 0;
      lock.setAttribute("aria-pressed", String(shares.locked.has(place)));
      range.value = String(Math.round(POSITIONS * Math.sqrt(steps / STEPS)));
      const percent = (steps / (STEPS / 100)).toFixed(3);
      range.setAttribute("aria-valuetext", `${percent} % ${of}`);
      if (document.activeElement !== field) field.value = percent;
      refill(aside, beside);
    },
  };
}

/**
 * The budget at a position of its slider: three significant digits; the given one at 0.
 * @param {import("../fractions.js").Fraction} given
 * @param {number} position
 */
function budgetAt(given, position) {
  if (position === 0) return given;
  const value = toNumber(given) * 10 ** (position / BUDGET_STEPS);
  return parsed(value.toPrecision(3)) ?? given;
}

/** @param {string} text */
function brief(text) {
  const value = parsed(text);
  return value && text.includes("/") ? `${text} (${figure(toNumber(value).toPrecision(4))})` : text;
}
