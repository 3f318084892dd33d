/**
 * Variances of districts in a thread of their own.
 *
 * Messages to the worker, each with a number `id` that the answer repeats:
 *     {id, kind: "load", address}                                    address of `district.json`, absolute
 *     {id, kind: "district", rows, minus, tables}                    Int32Array, Int32Array or null, numbers or null
 *     {id, kind: "geolevel", table, geolevel, precisions}            precisions: Float64Array[] or null for the release's
 * Messages from it:
 *     {id, kind: "loaded", gaussian, tables}                         content of `tables` in `district.json`
 *     {id, kind: "variances", variances}                             {number of table: Float64Array}
 *     {id, kind: "geolevel", rowOf, variances}                       Int32Array, Float64Array[]
 *     {id, kind: "failed", message}
 *
 * `load` comes first. `worker_client.js` speaks this protocol.
 */

import { TreeCovariance } from "./tree_covariance.js";

/** @typedef {{id: number, kind: "load", address: string}} Load */
/** @typedef {{id: number, kind: "district", rows: Int32Array, minus: Int32Array | null, tables: number[] | null}} District */
/** @typedef {{id: number, kind: "geolevel", table: number, geolevel: number, precisions: Float64Array[] | null}} Geolevel */

/** Answers messages about one release. */
class Answerer {
  constructor() {
    /** @type {TreeCovariance | null} */
    this.tree = null;
  }

  /**
   * @param {Load | District | Geolevel} message
   * @returns {Promise<object>}
   */
  async answer(message) {
    if (message.kind === "load") {
      this.tree = await TreeCovariance.load(message.address);
      for (const table of this.tree.tables) this.tree.fitOf(table);
      return { kind: "loaded", gaussian: this.tree.gaussian, tables: this.tree.parts.tables };
    }
    if (!this.tree) throw new Error("no release is loaded. Send a message of the kind load first.");
    if (message.kind === "district") {
      const { rows, minus, tables } = message;
      return { kind: "variances", variances: this.tree.districtVariances(rows, minus ?? undefined, tables ?? undefined) };
    }
    const { table, geolevel, precisions } = message;
    const tree = precisions ? this.tree.withPrecisions(table, precisions) : this.tree;
    return { kind: "geolevel", ...tree.geolevelVariances(table, geolevel) };
  }
}

const answerer = new Answerer();

self.addEventListener("message", async (event) => {
  const { id } = event.data;
  try {
    self.postMessage({ id, ...(await answerer.answer(event.data)) });
  } catch (error) {
    self.postMessage({ id, kind: "failed", message: error instanceof Error ? error.message : String(error) });
  }
});
