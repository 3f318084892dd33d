// Answers questions of the tests with the workbench's own modules. A question is a line of JSON on the standard input.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { answerLines } from "../answer-lines.mjs";

const app = pathToFileURL(`${process.argv[2]}/`);
const load = (name) => import(new URL(`workbench/${name}.js`, app));

/** The plan of a site after some moves. */
async function moved({ plan, moves }) {
  const { PlanState } = await load("state");
  const { parsed } = await load("fractions");
  const state = new PlanState(plan);
  for (const move of moves) {
    if (move.total) state.total = parsed(move.total);
    else if (move.lock !== undefined) (move.level === null ? state.geolevels : state.queries[move.level]).toggleLock(move.lock);
    else (move.level === null ? state.geolevels : state.queries[move.level]).move(move.place, move.steps);
  }
  return state;
}

async function questionOf(state) {
  const { questionOf: of } = await load("plan-figures");
  return of(state, state.noise());
}

async function tree(site) {
  const { TreeCovariance } = await import(new URL("numerics/index.js", app));
  const bytes = readFileSync(`${site}/data/district.bin`);
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  return TreeCovariance.from(JSON.parse(readFileSync(`${site}/data/district.json`, "utf8")), buffer);
}

const tasks = {
  sentences: async ({ answer }) => {
    const { answerSentences } = await import(new URL("explorer/sentences.js", app));
    return answerSentences(answer, "people", 0.95);
  },
  laws: async ({ mechanism, parameters }) => {
    const { varianceOf, marginOf } = await load("laws");
    return parameters.map((one) => [varianceOf(mechanism, one), marginOf(mechanism, one)]);
  },
  zcdp: async ({ pairs }) => {
    const { zcdpEpsilon } = await load("zcdp");
    return pairs.map(([rho, delta]) => zcdpEpsilon(rho, delta));
  },
  texts: async ({ upper, deviations }) => {
    const { atMost, deviation } = await load("text");
    return { upper: upper.map(atMost), deviations: deviations.map(deviation) };
  },
  fractions: async ({ texts }) => {
    const { parsed, toNumber, toText } = await load("fractions");
    return texts.map((text) => { const value = parsed(text); return value && [toText(value), toNumber(value)]; });
  },
  positions: async ({ plan, positions }) => {
    const { costOf, RELATIONS } = await load("privacy");
    const { releaseFile } = await load("release-file");
    const { atMost, deviation } = await load("text");
    const found = [];
    for (const moves of positions) {
      const state = await moved({ plan, moves }), asked = await questionOf(state);
      const costs = Object.fromEntries(RELATIONS.map((relation) => [relation, costOf(asked, relation)]));
      found.push({
        file: releaseFile(state), costs, shown: atMost(costs[plan.neighbours].epsilon),
        deviations: state.noise().map((one) => deviation(Math.sqrt(one.variance))),
        shares: [state.geolevels, ...state.queries].map((one) => one.exact.map(({ n, d }) => [String(n), String(d)])),
      });
    }
    return found;
  },
  children: async ({ spine, levels, children }) => {
    const { childrenOf } = await load("baseline");
    return childrenOf(spine, levels, children);
  },
  links: async ({ plan, moves, links }) => {
    const { partsOf, takeParts } = await load("address");
    const state = await moved({ plan, moves }), first = { children: [3, 4], chosen: { kind: "estimate", statistic: "median", geolevel: "County", query: "total" } };
    const fresh = async () => ({ state: await moved({ plan, moves: [] }), children: [3, 4], chosen: { ...first.chosen }, level: 0 });
    const known = { kinds: ["estimate", "noise"], geolevels: ["State", "County", "Block"], queries: ["total", "sex*age"] };
    const own = partsOf({ state, children: [3, 9], chosen: { ...first.chosen, kind: "noise", query: "sex*age" }, level: 1 }, first);
    const sent = Object.fromEntries(Object.entries(own).filter(([, value]) => value !== null));
    const taken = await fresh(), problems = takeParts(sent, taken, known);
    const others = [];
    for (const link of links) {
      const position = await fresh();
      others.push({ problems: takeParts(link, position, known), untouched: Object.values(partsOf(position, first)).every((one) => one === null) });
    }
    return { sent, problems, again: partsOf(taken, first), own, others };
  },
  person: async ({ plan }) => {
    const { meaningOf } = await load("privacy");
    return meaningOf(await questionOf(await moved({ plan, moves: [] })));
  },
  budget: async ({ plan, epsilon }) => {
    const { budgetFor } = await load("privacy");
    return budgetFor(await questionOf(await moved({ plan, moves: [] })), epsilon);
  },
  sequence: async ({ site, plan, moves, area }) => {
    const { Estimates } = await load("estimates");
    const { variancesOf } = await load("plan-figures");
    const given = variancesOf((await moved({ plan, moves: [] })).noise()), kept = new Estimates(await tree(site), given);
    const wanted = { ...area, members: Int32Array.from(area.members) }, found = [];
    for (let n = 0; n <= moves.length; n++) {
      const noise = variancesOf((await moved({ plan, moves: moves.slice(0, n) })).noise());
      const fresh = new Estimates(await tree(site), given);
      const [one, other] = [kept, fresh].map((each) => each.compute(noise, [], plan.spine.shown, wanted));
      found.push([one, other].map(({ summaries, chosen }) => [...summaries.flatMap(({ smallest, median, largest }) => [smallest, median, largest]),
        ...Object.values(chosen).flatMap((values) => [...values])]));
    }
    return found;
  },
  ranks: async ({ values, numbers, ranks }) => {
    const { weightedValue } = await load("statistics");
    return ranks.map((rank) => weightedValue(Float64Array.from(values), Float64Array.from(numbers), rank));
  },
  estimates: async ({ site, plan, moves, children, area }) => {
    const { Estimates } = await load("estimates");
    const { variancesOf } = await load("plan-figures");
    const given = (await moved({ plan, moves: [] })).noise(), state = await moved({ plan, moves });
    const estimates = new Estimates(await tree(site), variancesOf(given));
    const wanted = area && ("row" in area ? area : { ...area, members: Int32Array.from(area.members) });
    const found = estimates.compute(variancesOf(state.noise()), children, plan.spine.shown, wanted);
    const chosen = Object.fromEntries(Object.entries(found.chosen).map(([table, values]) => [table, [...values]]));
    return { ...found, chosen };
  },
};

const replace = (_, value) => (typeof value === "number" && !Number.isFinite(value) ? String(value) : value);
await answerLines(tasks, replace);
