/** The plan that the page compares with: the file as it was given, or the plan of `--compare`. */

import { say } from "../parts/language.js";
import { PlanState } from "./state.js";
import { estimateErrors, noiseErrors, questionOf, variancesOf } from "./plan-figures.js";

/** @typedef {import("./state.js").GivenPlan} GivenPlan */
/** @typedef {import("./estimates.js").Area} Area */
/** @typedef {import("./bench.js").Found} Found */
/** @typedef {Record<import("./privacy.js").Relation, import("./privacy.js").Cost>} Costs */

export class Baseline {
  /**
   * @param {GivenPlan} plan  the plan of the page
   * @param {GivenPlan | null} other  the plan of `--compare`
   * @param {string | null} file  its file, which names it if both plans have the same name
   */
  constructor(plan, other, file) {
    this.isOther = other !== null;
    this.plan = plan;
    this.given = other ?? plan;
    this.name = other ? (other.name === plan.name && file) || other.name : say("the file");
    this.state = new PlanState(this.given);
    this.noise = this.state.noise();
    this.spine = this.given.spine ?? null;
    /** @type {string[]} */
    this.tables = [];
    /** @type {Found | null} */
    this.found = null;
    this.key = "";
    /** @type {Costs | null} */
    this.costs = null;
  }

  /**
   * Load the covariances of the plan of `--compare`.
   * @param {import("./asks.js").Asks} covariances
   * @param {string[]} tables  queries of the plan of the page
   */
  async load(covariances, tables) {
    this.tables = tables;
    if (!this.isOther || !this.spine) return;
    const address = new URL("data/other/data/district.json", document.baseURI).href;
    const found = await covariances.ask("load", { name: "other", address, given: variancesOf(this.noise) });
    this.tables = found.map((/** @type {{ name: string }} */ one) => one.name);
  }

  /** @param {import("./asks.js").Asks} privacy */
  async computeCosts(privacy) {
    this.costs ??= await privacy.ask("cost", { question: questionOf(this.state, this.noise) });
  }

  /**
   * Compute the estimates, unless they are those of the last time.
   * @param {import("./asks.js").Asks} covariances
   * @param {number[]} children  of the regular spine of the page's plan
   * @param {Area | null} area  of the geography, which both plans share
   */
  async compute(covariances, children, area) {
    const { spine } = this, key = JSON.stringify([children, area]);
    if (!spine || this.key === key) return;
    this.found = await covariances.ask("compute", {
      name: this.isOther ? "other" : "plan", noise: variancesOf(this.noise), levels: spine.shown, area,
      children: this.plan.spine ? childrenOf(spine, this.plan.spine.levels, children) : children,
    });
    this.key = key;
  }

  /**
   * Standard deviations by place; null before they are computed.
   * @param {import("./panels/accuracy-panel.js").Chosen} chosen
   */
  errors({ kind, statistic }) {
    if (kind === "noise") return noiseErrors(this.noise);
    return this.found && this.spine && estimateErrors(this.found.summaries, statistic, this.spine.levels, this.tables);
  }

  /**
   * Standard deviations of the chosen area, by name of the query; null if there are none.
   * @returns {Map<string, Float64Array> | null}
   */
  get area() {
    const { found } = this;
    return found && new Map(this.tables.flatMap((name, table) => (found.chosen[table] ? [[name, found.chosen[table]]] : [])));
  }
}

/**
 * Numbers of children of a regular spine, where they follow from another spine with geolevels of the same names.
 * @param {{ levels: string[], children: number[] }} spine
 * @param {string[]} levels  of the other spine, root first
 * @param {number[]} children  of the other spine
 * @returns {number[]}
 */
export function childrenOf(spine, levels, children) {
  return spine.children.map((own, i) => {
    const from = levels.indexOf(spine.levels[i]), to = levels.indexOf(spine.levels[i + 1]);
    return from < 0 || to <= from ? own : children.slice(from, to).reduce((product, n) => product * n, 1);
  });
}
