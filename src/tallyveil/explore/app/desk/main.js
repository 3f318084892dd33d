/** Begins the desk: one step at a time, each answer kept by the program that serves this page. */

import { byId, element, refill } from "../parts/elements.js";
import { say, speak } from "../parts/language.js";
import { chosenLanguage, languageSwitch } from "../parts/language-switch.js";
import { themeSwitch } from "../parts/theme.js";
import { answersIn, questionElement } from "./fields.js";
import { tradeOffElement } from "./trade-off.js";

/** @typedef {import("./fields.js").Question} Question */

/**
 * @typedef {object} Step
 * @property {string} name
 * @property {string} title
 * @property {string} why
 * @property {Question[]} fields
 * @property {string[]} shown
 * @property {string[]} problems
 * @property {string[]} errors  what is wrong, in English
 * @property {string[]} unsaid  what is wrong only once somebody goes on
 * @property {boolean} done
 * @property {any} extra
 */

/** @typedef {{ steps: Step[], titles: [string, string][], folder: string }} View */
/** @typedef {{ problems: string[], errors: string[], costs: string[], view: View }} Answer */

/** @type {View} */
let view = { steps: [], titles: [], folder: "" };
let current = "";

/**
 * @param {Record<string, any>} asked
 * @returns {Promise<Answer>}
 */
async function ask(asked) {
  byId("announcer").textContent = say("Computing …");
  const response = await fetch("ask", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ...asked, language: chosenLanguage() }) });
  if (!response.ok) throw new Error(say("The desk does not answer. Start it again in the terminal; every answer is kept."));
  const answer = await response.json();
  view = answer.view;
  byId("announcer").textContent = "";
  return answer;
}

function step() {
  return view.steps.find((one) => one.name === current) ?? view.steps[view.steps.length - 1];
}

function form() {
  const found = document.querySelector("form");
  return found instanceof HTMLFormElement ? found : null;
}

/** Keep what stands in the form, also what is wrong, and what is typed while that is on its way. */
async function keep() {
  const place = form();
  const { name, fields, extra } = step();
  if (!place || fields.length === 0 || extra.choices) return; // the slider keeps its own answer
  let answers = answersIn(place, fields);
  for (;;) {
    const answer = await ask({ ask: "take", step: name, answers });
    const refused = [...answer.problems, ...answer.errors];
    if (refused.length) throw new Error(refused.join(" ")); // what is typed stays in the form
    const later = answersIn(place, fields);
    if (JSON.stringify(later) === JSON.stringify(answers)) return;
    answers = later;
  }
}

/** @param {string} name */
async function go(name) {
  await keep();
  current = name;
  show();
  byId("step").focus();
}

/** @param {string} name  the step that is left: a button pressed twice leaves it once */
async function next(name) {
  if (name !== current) return;
  await keep();
  const here = step();
  if (!here.done) {
    show(true);
    return;
  }
  const place = view.titles.findIndex(([name]) => name === here.name);
  current = view.titles[Math.min(place + 1, view.titles.length - 1)][0];
  show();
  byId("step").focus();
}

async function lookAgain() {
  await keep();
  const focused = document.activeElement?.id;
  show();
  if (focused) document.getElementById(focused)?.focus();
}

/** What the reader asked for before; the next waits for it, so that no answer is overtaken by an older view. */
let before = Promise.resolve();
let waiting = 0;

/** @param {() => Promise<void>} work */
function guarded(work) {
  waiting += 1;
  document.body.dataset.settled = "false";
  before = before.then(work).catch((error) => {
    byId("step").prepend(element("p", { class: "problems", role: "alert" }, String(error.message ?? error)));
  }).finally(() => {
    waiting -= 1;
    document.body.dataset.settled = String(waiting === 0);
  });
}

/**
 * @param {boolean} [complain]  whether what is wrong is said at once
 * @param {Pick<Answer, "problems" | "errors">} [besides]  what else is wrong
 */
function show(complain = false, besides = { problems: [], errors: [] }) {
  const here = step();
  current = here.name;
  byId("folder").textContent = say("Folder {folder}. No value of a record is shown here.", { folder: view.folder });
  refill(byId("steps"), ...view.titles.map(([name, title], i) => {
    const known = view.steps.find((one) => one.name === name);
    return element("li", {}, element("button", {
      type: "button", id: `to-${name}`, disabled: !known, "aria-current": name === current ? "step" : null, onclick: () => guarded(() => go(name)),
    }, element("span", { class: "state", "aria-hidden": "true" }, known?.done && name !== "file" ? "✓" : String(i + 1)), title,
    known?.done ? element("span", { class: "unseen" }, ` (${say("done")})`) : null));
  }));
  const problems = [...besides.problems, ...here.problems, ...(complain ? here.unsaid : [])];
  const errors = [...besides.errors, ...here.errors];
  const extra = here.extra;
  refill(byId("step"),
    element("h2", {}, here.title), element("p", { class: "why" }, here.why),
    problems.length + errors.length ? element("div", { class: "problems", role: "alert" },
      ...problems.map((one) => element("p", {}, one)), ...errors.map((one) => element("p", { lang: "en" }, one))) : null,
    here.name !== "budget" && here.shown.length ? element("div", { class: "shown" }, ...here.shown.map((one) => element("p", {}, one))) : null,
    extra.choices ? tradeOffElement(extra, here.fields[0].value, (factor) => guarded(() => chosen(factor))) : null,
    extra.choices ? costsElement() : null,
    extra.text ? element("h3", {}, extra.path) : null,
    extra.text ? element("pre", { tabindex: 0, lang: "en", role: "region", "aria-label": say("The release file") }, extra.text) : null,
    element("form", { class: "step-form", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); guarded(() => here.name === "file" ? write() : next(here.name)); } },
      ...(extra.choices ? [] : here.fields.map((one) => questionElement(one, () => guarded(lookAgain)))),
      element("div", { class: "go" },
        here.name === "file" && !extra.text ? null : element("button", { id: "go-on", class: "primary", type: "submit" }, here.name === "file" ? say("Write the file") : say("Go on")))));
  document.title = `${here.title} – ${say("Desk")}`;
}

/** @param {string} factor */
async function chosen(factor) {
  show(false, await ask({ ask: "take", step: "budget", answers: { factor } }));
  byId("errors").focus();
}

function costsElement() {
  const place = element("div", { "aria-live": "polite" });
  return element("div", {}, element("button", { type: "button", id: "costs", onclick: () => guarded(() => costs(place)) }, say("What does each wish cost?")), place);
}

/** @param {HTMLElement} place */
async function costs(place) {
  refill(place, element("p", { class: "quiet" }, say("Computing …")));
  const answer = await ask({ ask: "costs" });
  refill(place, element("ul", {}, ...answer.costs.map((one) => element("li", {}, one))), ...answer.problems.map((one) => element("p", { class: "problems" }, one)),
    ...answer.errors.map((one) => element("p", { class: "problems", lang: "en" }, one)));
}

async function write() {
  const answer = await ask({ ask: "write" });
  show(true, answer);
  byId("step").focus();
}

async function inChosenLanguage() {
  const tag = chosenLanguage();
  await speak(tag, tag === "en" ? null : tag);
  byId("skip").textContent = say("Skip to the step");
  byId("desk").textContent = say("Desk");
  byId("step-list").setAttribute("aria-label", say("Steps"));
  byId("foot").textContent = say("Served by this machine to this machine alone. Nothing is sent anywhere. Close it with Ctrl-C in the terminal; every answer is kept in the folder.");
  refill(byId("theme-place"), languageSwitch(() => guarded(otherLanguage)), themeSwitch());
}

/** Say everything anew; what stands in the form is kept before. */
async function otherLanguage() {
  await inChosenLanguage();
  await keep();
  await ask({ ask: "view" });
  show();
  byId("language").focus();
}

async function begin() {
  await inChosenLanguage();
  await ask({ ask: "view" });
  current = view.steps[view.steps.length - 1].name;
  show();
}

guarded(begin);
