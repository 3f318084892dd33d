/** Computes standard deviations of estimates, in a thread of its own. */

import { answering } from "./asks.js";
import { Estimates } from "./estimates.js";

/** @type {Map<string, Estimates>} */
const loaded = new Map();

answering({
  load: async ({ name, address, given }) => {
    const estimates = await Estimates.load(address, given);
    loaded.set(name, estimates);
    return estimates.tree.parts.tables.map(({ name: table, why }) => ({ name: table, why }));
  },
  compute: ({ name, noise, children, levels, area }) => loaded.get(name)?.compute(noise, children, levels, area),
});
