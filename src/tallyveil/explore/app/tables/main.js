/** The tables of a release: a reader puts a table together, and the program that serves this page answers. */

import { copyButton } from "../parts/copy.js";
import { download } from "../parts/csv.js";
import { byId, element, refill } from "../parts/elements.js";
import { phrase, say } from "../parts/language.js";
import { onState, writeState } from "../parts/link-state.js";
import { counted } from "../parts/numbers.js";
import { shown } from "../parts/shown.js";
import { themeSwitch } from "../parts/theme.js";
import { Areas } from "../explorer/areas.js";
import { SearchIndex } from "../explorer/search-index.js";
import { languageSwitch, loadSite, madeBy, pageLinks } from "../explorer/site.js";
import { AnswerTable } from "./answer.js";
import { answerView } from "./answer-view.js";
import { AreasCard } from "./areas-card.js";
import { readAsked } from "./asked.js";
import { Catalogue } from "./catalogue.js";
import { Choices } from "./choices.js";
import { attributeCard } from "./fields.js";
import { commandOf } from "./grammar.js";
import { numbersCard } from "./numbers-card.js";
import { answerOf, begin, fileOf, Problem } from "./server.js";
import { zoneBoxes } from "./zones.js";

/** @typedef {import("../explorer/site.js").Site} Site */
/** @typedef {import("./asked.js").Asked} Asked */

/** Ending, kind of file, and what its button says. */
const FILES = [
  [".csv", "text/csv;charset=utf-8", phrase("Download as CSV")],
  [".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", phrase("Download as Excel")],
  [".json", "application/json", phrase("Download as JSON-stat")],
  [".px", "text/plain;charset=utf-8", phrase("Download as PX")],
  [".parquet", "application/vnd.apache.parquet", phrase("Download as Parquet")],
];
const NAME = 60; // characters of a question in the name of a file

class Page {
  #site;
  #catalogue;
  #areasCard;
  #release = "RUN";
  #asked = 0;
  /** The last answer and what it answers. @type {{key: string, answer: import("./server.js").Answer, seconds: number} | null} */
  #last = null;

  /** @param {Site} site */
  constructor(site) {
    this.#site = site;
    this.#catalogue = new Catalogue(site);
    const areas = new Areas(site);
    this.#areasCard = new AreasCard(areas, new SearchIndex(areas), this.#catalogue, this.#answers);
  }

  get #answers() {
    return this.#site.answers && this.#site.asking.lacking === null;
  }

  async begin() {
    await this.#controls(readAsked(this.#catalogue));
    if (this.#answers) {
      byId("announcer").textContent = say("Reading the release …");
      this.#release = await begin().then(({ release }) => release).catch((error) => {
        if (!(error instanceof Problem)) throw error;
        return this.#release;
      });
    }
    onState(() => void this.show().catch(fail));
    await this.show();
  }

  async show() {
    const mine = ++this.#asked;
    document.body.dataset.settled = "false";
    const asked = readAsked(this.#catalogue);
    await this.#controls(asked);
    this.#question(asked);
    if (this.#answers) await this.#answer(asked, mine);
    else this.#without();
    if (mine === this.#asked) document.body.dataset.settled = "true"; // for programs that wait for the page
  }

  /** @param {Asked} asked */
  async #controls(asked) {
    const choices = new Choices(this.#catalogue);
    const again = () => void this.#controls(asked);
    const areas = await this.#areasCard.show(choices, asked, again);
    const cards = this.#catalogue.fields.slice(1).map((field) => attributeCard(field, choices, again));
    keepingFocus(() => {
      refill(byId("fields"), element("h2", { class: "unseen" }, say("Fields of the table")), areas, ...cards, numbersCard(choices, this.#catalogue, asked));
      refill(byId("zones"), ...zoneBoxes(choices, this.#catalogue));
    });
  }

  /** @param {Asked} asked */
  #question(asked) {
    const command = commandOf(this.#release, asked.text, asked);
    const words = element("textarea", {
      id: "words", rows: 2, spellcheck: "false", "aria-describedby": "words-help", onkeydown: (event) => {
        if (event.key === "Enter" && !event.shiftKey) {
          event.preventDefault();
          ask();
        }
      },
    });
    words.value = asked.text;
    const ask = () => writeState({ ask: words.value.trim(), columns: words.value.trim() === asked.text ? String(asked.columns) : null, sort: null });
    const parts = {
      release: shown(this.#site.name), run: this.#site.run, question: asked.text, file: asked.file,
      level: String(100 * Number(asked.level)), program: this.#site.made_by,
    };
    const cited = asked.file === "" ? say("{release} (run {run}), answer to “{question}”, intervals of {level} %, by {program}.", parts)
      : say("{release} (run {run}), answer to “{question}” for the areas of {file}, intervals of {level} %, by {program}.", parts);
    keepingFocus(() => refill(byId("question"),
      element("h2", { id: "question-title" }, say("The question")),
      element("label", { for: "words", class: "unseen" }, say("The question in words")),
      words,
      element("div", { class: "row" }, element("button", { type: "button", id: "ask", class: "primary", onclick: ask }, say("Ask")), copyButton("link", say("Copy the link"), () => location.href),
        copyButton("citation", say("Copy a citation"), () => `${cited} ${command}`)),
      element("p", { class: "quiet", id: "words-help" }, say("These words say all of the question, and so does the address of this page. On the command line:")),
      element("pre", { tabindex: 0, role: "region", "aria-label": say("The command") }, command),
      element("p", { class: "printed" }, shown(cited))));
  }

  /** The site is only files, or its release has no measurements. */
  #without() {
    const { lacking } = this.#site.asking;
    refill(byId("answer"), element("h2", { id: "result-title" }, say("Answer")),
      element("p", { class: "note" }, lacking !== null ? shown(lacking)
        : say("This site is only files, and computes no answers: they follow from the measurements of all areas together. Put the question together here. " +
          "The answer comes from the command above, or from this page on your own machine, which works without a network: tallyveil explore RUN --open, where RUN is the folder of the release.")));
  }

  /**
   * @param {Asked} asked
   * @param {number} mine
   */
  async #answer(asked, mine) {
    const place = byId("answer");
    try {
      const asking = askingOf(asked);
      const key = JSON.stringify(asking);
      if (this.#last?.key !== key) {
        place.classList.add("waiting");
        byId("announcer").textContent = say("Computing …");
        const begun = performance.now();
        const answer = await answerOf(asking, this.#site.language ?? null);
        if (mine !== this.#asked) return;
        this.#last = { key, answer, seconds: (performance.now() - begun) / 1000 };
        byId("announcer").textContent = say("The answer has {rows}.", { rows: counted(answer.rows, say("row"), say("rows")) });
      }
      const { answer, seconds } = this.#last;
      const view = await answerView(new AnswerTable(answer, asked, this.#catalogue), asked);
      if (mine !== this.#asked) return;
      keepingFocus(() => refill(place,
        element("div", { class: "head" }, element("h2", { id: "result-title" }, say("Answer")),
          element("p", { class: "quiet" }, say("{rows} in {seconds} s", { rows: counted(answer.rows, say("row"), say("rows")), seconds: seconds.toLocaleString(this.#site.language, { maximumFractionDigits: 2 }) }))),
        view,
        element("div", { class: "actions" }, ...FILES.filter(([ending]) => answer.endings.includes(ending)).map(([ending, kind, words]) =>
          element("button", { type: "button", id: `save${ending.replace(".", "-")}`, onclick: () => void this.#save(asking, ending, kind).catch(fail) }, say(words)))),
        element("p", { class: "error", id: "save-problem", role: "alert", hidden: true })));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (mine !== this.#asked) return;
      this.#last = null;
      refill(place, element("h2", { id: "result-title" }, say("Answer")), element("p", { class: "error", role: "alert" }, shown(error.message)));
    } finally {
      if (mine === this.#asked) place.classList.remove("waiting");
    }
  }

  /**
   * @param {import("./server.js").Asking} asking
   * @param {string} ending
   * @param {string} kind
   */
  async #save(asking, ending, kind) {
    const name = `${this.#site.name} ${asking.question}`.slice(0, NAME);
    const problem = byId("save-problem");
    problem.hidden = true;
    try {
      download(`${name}${ending}`, await fileOf(asking, ending, this.#site.language ?? null), kind);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      // Beside the buttons: the answer, which may have taken minutes, stays.
      problem.textContent = shown(error.message);
      problem.hidden = false;
    }
  }
}

/**
 * The message that asks what the address asks.
 * @param {Asked} asked
 * @returns {import("./server.js").Asking}
 * @throws {Problem} a number is none
 */
function askingOf({ text, level, threshold, plan }) {
  const number = (/** @type {string} */ given, /** @type {string} */ wrong) => {
    const value = Number(given);
    if (!Number.isFinite(value)) throw new Problem(say(wrong, { given }));
    return value;
  };
  return {
    question: text, plan: plan === "" ? null : plan,
    level: number(level, phrase("The level is “{given}”, wanted a number with a decimal point, such as 0.5.")),
    threshold: threshold === "" ? null : number(threshold, phrase("The threshold is “{given}”, wanted a number with a decimal point, such as 0.5.")),
  };
}

/**
 * Show a part of the page again. What had the focus has it afterwards; if it is gone, what comes first in its section.
 * @param {() => void} work
 */
function keepingFocus(work) {
  const before = document.activeElement;
  const focused = before?.id;
  const section = before?.closest("section");
  work();
  if (!focused || document.activeElement?.id === focused) return;
  const after = document.getElementById(focused) ?? section?.querySelector("button, select, input, [tabindex]");
  if (after instanceof HTMLElement) after.focus({ preventScroll: true });
}

/** @param {Site} site */
function head(site) {
  byId("release").textContent = shown(site.name);
  document.title = `${say("Tables")} – ${shown(site.name)}`;
  byId("title").textContent = say("Make a table");
  byId("skip").textContent = say("Skip to the answer");
  byId("fold-title").textContent = say("What the table is made of");
  byId("zones").setAttribute("aria-label", say("Rows and columns"));
  refill(byId("pages"), ...pageLinks("tables"));
  refill(byId("warnings"), ...site.warnings.map((warning) => element("p", { class: "warning", role: "note" }, shown(warning))));
  refill(byId("foot"),
    element("h2", {}, say("How these counts are protected")),
    ...site.guarantee.map((sentence) => element("p", {}, shown(sentence))),
    element("p", {}, shown(site.signature)),
    element("p", {}, say("An answer follows from the published files alone. Asking costs nothing and tells nothing that the release has not told.")),
    element("p", {}, madeBy(site)));
}

/** On a narrow screen the fields are folded, so that the answer is not below all of them. */
function foldFields() {
  const narrow = matchMedia("(max-width: 860px)"); // as in tables.css
  const fold = /** @type {HTMLDetailsElement} */ (byId("fold"));
  const settle = () => { fold.open = !narrow.matches; };
  narrow.addEventListener("change", settle);
  settle();
}

/** @param {unknown} error */
function fail(error) {
  const text = error instanceof Error ? error.message : String(error);
  refill(byId("answer"), element("p", { class: "error", role: "alert" }, say("The page cannot show this. {reason}", { reason: text })));
  document.body.dataset.settled = "true";
}

async function start() {
  refill(byId("theme-place"), themeSwitch());
  const site = await loadSite();
  refill(byId("theme-place"), languageSwitch(site), themeSwitch());
  head(site);
  foldFields();
  await new Page(site).begin();
}

start().catch(fail);
