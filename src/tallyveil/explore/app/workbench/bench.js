/** The workbench: keeps the plan, asks the workers, and shows what they answer. Only the newest plan is shown. */

import { AreaPanel } from "./panels/area-panel.js";
import { placeOf, showAccuracy } from "./panels/accuracy-panel.js";
import { Asks } from "./asks.js";
import { Baseline } from "./baseline.js";
import { Controls } from "./panels/controls.js";
import { showCost } from "./panels/cost-panel.js";
import { showDownload } from "./panels/download-panel.js";
import { fraction } from "./fractions.js";
import { FACTORS, showFrontier } from "./panels/frontier-panel.js";
import { showLevels } from "./panels/levels-panel.js";
import { showNoise } from "./panels/noise-panel.js";
import { showPerson } from "./panels/person-panel.js";
import { estimateErrors, noiseErrors, questionOf, variancesOf } from "./plan-figures.js";
import { spinePart } from "./panels/spine-part.js";
import { PlanState } from "./state.js";
import { atMost } from "./text.js";
import { partsOf, takeParts } from "./address.js";
import { byId, refill } from "../parts/elements.js";
import { onState, readState, writeState } from "../parts/link-state.js";
import { say } from "../parts/language.js";
import { shown } from "../parts/shown.js";

/** @typedef {import("./state.js").GivenPlan} GivenPlan */
/** @typedef {import("./estimates.js").Summary} Summary */
/** @typedef {import("./panels/accuracy-panel.js").Chosen} Chosen */
/** @typedef {{ summaries: Summary[], chosen: Record<number, Float64Array> }} Found */
/** @typedef {{ file: string, plan: GivenPlan, other: GivenPlan | null, other_file: string | null }} Content */

const LEAST = 1e-6; // an error below this is none: the count is published exactly
const QUIET = 250; // milliseconds without a change after which slow numbers are computed

export class Bench {
  /** @param {Content} content */
  constructor(content) {
    this.content = content;
    this.state = new PlanState(content.plan);
    this.before = new Baseline(content.plan, content.other, content.other_file);
    this.noise = this.state.noise();
    this.spine = content.plan.spine ?? null;
    this.children = [...(this.spine?.children ?? [])];
    this.version = 0;
    this.notes = 0;
    this.isLoaded = false; // the address is not written before all of it could be read
    this.isTaken = false; // whether the next address takes the place of one that was read
    this.privacy = new Asks(new Worker(new URL("./privacy-worker.js", import.meta.url), { type: "module" }));
    /** @type {Asks | null} */
    this.covariances = this.spine
      ? new Asks(new Worker(new URL("./estimates-worker.js", import.meta.url), { type: "module" })) : null;
    /** @type {string[]} */
    this.tables = [];
    /** @type {Found | null} */
    this.found = null;
    /** @type {Set<string>} */
    this.late = new Set();
    /** @type {import("./baseline.js").Costs | null} */
    this.costs = null;
    /** @type {Chosen} */
    this.firstChosen = { kind: this.spine ? "estimate" : "noise", statistic: "median", ...this.firstCount() };
    this.chosen = this.firstChosen;
    this.controls = new Controls(byId("controls"), this.state, {
      changed: () => this.changed(), forEpsilon: (epsilon) => this.forEpsilon(epsilon), levelChosen: () => this.levelChosen(),
    });
  }

  /** The count that is chosen first: of the first query at the second geolevel, or the only one. */
  firstCount() {
    const { geolevels } = this.state.given, level = geolevels[Math.min(1, geolevels.length - 1)];
    return { geolevel: level.name, query: level.queries[0].name };
  }

  /** Load the covariances and show everything. */
  async begin() {
    this.takeAddress();
    this.showNow();
    if (this.covariances) {
      const given = variancesOf(new PlanState(this.content.plan).noise());
      const tables = await this.covariances.ask("load", { name: "plan", address: new URL("data/district.json", document.baseURI).href, given });
      this.tables = tables.map((/** @type {{ name: string }} */ one) => one.name);
      await this.before.load(this.covariances, this.tables);
      if (this.spine) this.areaPanel = new AreaPanel(byId("area"), this.spine, this.tables, () => this.changed(), () => this.noteAddress());
      this.takeAddress();
    }
    this.isLoaded = true;
    onState((parts) => this.addressChanged(parts));
    await this.changed();
    this.chooseUncertain();
  }

  /** Show the queries of another geolevel. */
  levelChosen() {
    if (!this.controls) return; // it is being made
    this.showNow();
    this.noteAddress();
  }

  /** The parts of the address of what is shown. */
  get parts() {
    const first = { children: this.spine?.children ?? [], chosen: this.firstChosen }, { state, children, chosen } = this;
    return { ...partsOf({ state, children, chosen, level: this.controls.level }, first), area: this.areaPanel?.part ?? null };
  }

  /** Show what the address says, and say what it has that this plan does not have. */
  takeAddress() {
    const { area = null, ...parts } = readState(), { state, content, spine } = this;
    state.takeGiven();
    const children = [...(spine?.children ?? [])], position = { state, children, chosen: { ...this.firstChosen }, level: 0 };
    const { geolevels } = content.plan, queries = geolevels.flatMap((level) => level.queries.map((query) => query.name));
    const problems = takeParts(parts, position, {
      kinds: spine ? ["estimate", "noise"] : ["noise"], queries: [...queries, ...this.tables],
      geolevels: [...geolevels.map((level) => level.name), ...(spine?.levels ?? [])],
    });
    if (area !== null && !this.areaPanel || this.areaPanel?.take(area) === false) problems.push("area");
    this.children = children;
    if (JSON.stringify(position.chosen) !== JSON.stringify(this.chosen)) this.chosen = position.chosen;
    this.spineElement = spine && spinePart(spine, children, () => this.changed());
    this.controls.choose(position.level);
    this.isTaken = true;
    refill(byId("address-note"), problems.length
      ? say("The address has parts that this page does not understand or this plan does not have: {parts}. They were ignored.", { parts: problems.map(shown).join(", ") }) : "");
  }

  /** @param {Record<string, string>} parts */
  addressChanged(parts) {
    if (this.isAddressed(parts)) return;
    this.takeAddress();
    this.changed();
  }

  /**
   * Whether an address is that of what is shown.
   * @param {Record<string, string>} parts
   */
  isAddressed(parts) {
    const own = Object.entries(this.parts).filter(([, value]) => value !== null);
    return own.length === Object.keys(parts).length && own.every(([name, value]) => parts[name] === value);
  }

  /** Write what is shown into the address, once nothing has changed for a while. So one drag is one step back. */
  async noteAddress() {
    const note = ++this.notes;
    if (!this.isLoaded) return;
    await quiet(QUIET);
    if (note !== this.notes) return;
    const before = readState(), isReplaced = this.isTaken;
    this.isTaken = false;
    if (this.isAddressed(before)) return;
    const unknown = Object.fromEntries(Object.keys(before).map((name) => [name, null]));
    writeState({ ...unknown, ...this.parts }, isReplaced);
    if (!isReplaced) refill(byId("address-note"));
  }

  /** Choose another count at first if the one that is chosen is published exactly. */
  chooseUncertain() {
    const now = this.errorsNow(), { geolevel, query } = this.chosen;
    if (this.chosen !== this.firstChosen || (now.get(placeOf(geolevel, query)) ?? 0) >= LEAST) return;
    const uncertain = [...now].filter(([, value]) => value >= LEAST && Number.isFinite(value));
    const found = uncertain.find(([place]) => place === placeOf(place.split("\n")[0], query)) ?? uncertain[0];
    if (!found) return;
    const [level, name] = found[0].split("\n");
    this.firstChosen = this.chosen = { ...this.chosen, geolevel: level, query: name };
    this.changed();
  }

  /** The plan has changed: show what follows by formula, then ask the workers. */
  async changed() {
    const version = ++this.version;
    document.body.dataset.settled = "false";
    this.showNow();
    await new Promise((resolve) => setTimeout(resolve, 0));
    if (version !== this.version) return;
    await Promise.all([this.showCosts(version), this.showEstimates(version), this.noteAddress()]);
    if (version !== this.version) return;
    await this.showCurve(version);
    if (version === this.version) document.body.dataset.settled = "true";
  }

  /** Show what needs no worker. */
  showNow() {
    const noise = this.noise = this.state.noise();
    this.controls.show(noise);
    showNoise(this.state, noise, noiseErrors(this.before.noise), this.before.name, placeOf);
    showDownload(this.state, this.content.file);
    this.showErrors();
  }

  /** @param {number} version */
  async showCosts(version) {
    const question = questionOf(this.state, this.noise);
    const costs = await this.privacy.ask("cost", { question });
    await this.before.computeCosts(this.privacy);
    if (version !== this.version) return;
    this.costs = costs;
    showCost(this.state, costs, this.isCompared ? this.before : null);
    await quiet(QUIET);
    if (version !== this.version) return;
    refill(byId("announcer"), say("epsilon at most {number}", { number: atMost(costs[this.state.given.neighbours].epsilon) }));
    const person = await this.privacy.ask("person", { question });
    if (version === this.version) showPerson(person, this.state.given);
  }

  /** @param {number} version */
  async showEstimates(version) {
    if (!this.covariances || !this.spine) return;
    const { spine } = this, inner = spine.kind === "regular" ? spine.shown : spine.shown.slice(0, -1);
    const area = this.areaPanel?.area ?? null;
    const noise = variancesOf(this.noise);
    this.late = new Set(spine.shown.filter((level) => !inner.includes(level)).map((level) => spine.levels[level]));
    if (inner.length) {
      const found = await this.compute("plan", noise, inner, null);
      if (version !== this.version) return;
      const kept = (this.found?.summaries ?? []).filter((one) => !inner.includes(one.level));
      this.found = { summaries: [...found.summaries, ...kept], chosen: this.found?.chosen ?? {} };
      this.showErrors();
    }
    await quiet(QUIET);
    if (version !== this.version) return;
    if (this.late.size || area) {
      const late = spine.shown.filter((level) => !inner.includes(level)), found = await this.compute("plan", noise, late, area);
      if (version !== this.version) return;
      const kept = (this.found?.summaries ?? []).filter((one) => !late.includes(one.level));
      this.found = { summaries: [...kept, ...found.summaries], chosen: found.chosen };
    }
    await this.before.compute(this.covariances, this.children, area);
    if (version !== this.version) return;
    this.late = new Set();
    this.showErrors();
    if (area && this.found) this.areaPanel?.show(this.found.chosen, this.isCompared ? this.before : null);
  }

  /**
   * @param {string} name
   * @param {{ geolevel: string, query: string, variance: number }[]} noise
   * @param {number[]} levels
   * @param {import("./estimates.js").Area | null} area
   * @returns {Promise<Found>}
   */
  async compute(name, noise, levels, area) {
    return this.covariances?.ask("compute", { name, noise, children: this.children, levels, area });
  }

  /** Whether there is anything to compare the plan with: another plan, or the file that it differs from. */
  get isCompared() {
    return this.before.isOther || !this.state.isGiven;
  }

  /** Standard deviations of what is chosen. */
  errorsNow() {
    const { kind, statistic } = this.chosen;
    if (kind === "noise") return noiseErrors(this.noise);
    return estimateErrors(this.found?.summaries ?? [], statistic, this.spine?.levels ?? [], this.tables);
  }

  showErrors() {
    const { given } = this.state, { spine, chosen } = this, now = this.errorsNow();
    const before = this.isCompared ? this.before.errors(chosen) : null, isEstimate = chosen.kind === "estimate";
    const measured = [...new Set(given.geolevels.flatMap((level) => level.queries.map((query) => query.name)))];
    const geolevels = isEstimate && spine ? spine.shown.map((level) => spine.levels[level])
      : given.geolevels.map((level) => level.name);
    showAccuracy({
      geolevels, queries: isEstimate ? this.tables : measured, now, before,
      beforeName: this.before.name, chosen, hasEstimates: spine !== null, why: given.why ?? null,
      whyBefore: this.before.isOther && isEstimate ? this.before.given.why ?? null : null, units: given.unit.many,
      spine: this.spineElement ?? null, late: isEstimate ? this.late : new Set(),
    }, (changes) => {
      this.chosen = { ...this.chosen, ...changes };
      this.changed();
    });
    const others = this.isCompared ? this.before.given.geolevels.map((level) => level.name) : [];
    const rows = merged(geolevels, others).map((geolevel) => {
      const place = placeOf(geolevel, chosen.query);
      return { geolevel, now: now.get(place), before: before?.get(place) };
    });
    showLevels(`${chosen.query} (${this.chosenKind})`, rows, before && this.before.name, given.unit.many);
  }

  /** What the errors are errors of, in words. */
  get chosenKind() {
    return this.chosen.kind === "estimate" ? say("estimate, {statistic}", { statistic: say(this.chosen.statistic) }) : say("one noisy answer");
  }

  /** @param {number} version */
  async showCurve(version) {
    const { geolevel, query } = this.chosen, place = placeOf(geolevel, query);
    const question = questionOf(this.state, this.noise);
    const epsilons = await this.privacy.ask("curve", { question, factors: FACTORS });
    const points = [];
    for (const [i, factor] of FACTORS.entries()) {
      if (version !== this.version) return;
      points.push({ epsilon: epsilons[i], error: await this.errorAt(factor, place) });
    }
    if (version !== this.version || !this.costs) return;
    const relation = this.state.given.neighbours, own = this.errorsNow().get(place);
    const was = this.isCompared ? this.before.errors(this.chosen)?.get(place) : undefined;
    /** @type {import("./panels/frontier-panel.js").Named[]} */
    const named = [];
    if (was !== undefined && this.before.costs) {
      named.push({ name: this.before.name, kind: "before", epsilon: this.before.costs[relation].epsilon, error: was });
    }
    if (own !== undefined) named.push({ name: say("now"), kind: "now", epsilon: this.costs[relation].epsilon, error: own });
    showFrontier(say("{query} at {geolevel} ({kind})", { query, geolevel, kind: this.chosenKind }), own !== undefined && own < LEAST ? [] : points, named, this.state.given.unit.many);
  }

  /**
   * The error of the chosen count with another budget.
   * @param {number} factor
   * @param {string} place
   * @returns {Promise<number>}
   */
  async errorAt(factor, place) {
    const noise = this.state.noise(factor);
    if (this.chosen.kind === "noise" || !this.spine) return noiseErrors(noise).get(place) ?? Infinity;
    const level = this.spine.levels.indexOf(this.chosen.geolevel);
    const { summaries } = await this.compute("plan", variancesOf(noise), [level], null);
    return estimateErrors(summaries, this.chosen.statistic, this.spine.levels, this.tables).get(place) ?? Infinity;
  }

  /**
   * Take the largest budget of three decimals for an epsilon.
   * @param {number} epsilon
   * @returns {Promise<boolean>} whether there is one
   */
  async forEpsilon(epsilon) {
    const thousandths = await this.privacy.ask("budget", { question: questionOf(this.state, this.noise), epsilon });
    if (thousandths === null) return false;
    this.state.total = fraction(BigInt(thousandths), 1000n);
    this.changed();
    return true;
  }
}

/**
 * The geolevels of two plans, in an order that suits both: one that only the second has stands before the next common one.
 * @param {string[]} own
 * @param {string[]} others
 */
function merged(own, others) {
  const found = [...own];
  for (const [i, name] of others.entries()) {
    if (own.includes(name)) continue;
    const next = others.slice(i + 1).find((one) => own.includes(one));
    found.splice(next === undefined ? found.length : found.indexOf(next), 0, name);
  }
  return found;
}

/** @param {number} milliseconds */
function quiet(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
