/**
 * Asks the worker of `worker.js` for variances. It has the questions of `TreeCovariance`, and answers with promises.
 *
 *     const worker = await CovarianceWorker.open("data/district.json");
 *     const variances = await worker.districtVariances(rows);
 */

/** @typedef {import("./tree_covariance.js").TableVariances} TableVariances */
/** @typedef {import("./description.js").TablePart} TablePart */
/** @typedef {{resolve: (answer: any) => void, reject: (error: Error) => void}} Waiting */

/** A worker that has loaded a release. */
export class CovarianceWorker {
  /** @param {Worker} worker */
  constructor(worker) {
    this.worker = worker;
    this.gaussian = false;
    /** @type {TablePart[]} */
    this.parts = [];
    this.last = 0;
    /** @type {Map<number, Waiting>} */
    this.waiting = new Map();
    worker.addEventListener("message", (event) => this.receive(event.data));
    worker.addEventListener("error", (event) => this.fail(event.message || "the worker cannot be started"));
  }

  /**
   * Starts a worker and loads a release. This makes the pass up the tree.
   * @param {string} address Of `district.json`, relative to the page.
   * @returns {Promise<CovarianceWorker>}
   */
  static async open(address) {
    const own = new CovarianceWorker(new Worker(new URL("./worker.js", import.meta.url), { type: "module" }));
    const loaded = await own.ask({ kind: "load", address: new URL(address, document.baseURI).href });
    own.gaussian = loaded.gaussian;
    own.parts = loaded.tables;
    return own;
  }

  /** Numbers of the tables that have variances. */
  get tables() {
    return this.parts.map((_, table) => table).filter((table) => this.parts[table].fit !== null);
  }

  /**
   * See `TreeCovariance.districtVariances`.
   * @param {Int32Array} rows
   * @param {Int32Array} [minus]
   * @param {number[]} [tables]
   * @returns {Promise<TableVariances>}
   */
  async districtVariances(rows, minus, tables) {
    const answer = await this.ask({ kind: "district", rows, minus: minus ?? null, tables: tables ?? null });
    return answer.variances;
  }

  /**
   * See `TreeCovariance.geolevelVariances`.
   * @param {number} table
   * @param {number} geolevel
   * @param {Float64Array[]} [precisions] Other precisions, in the form of `TreeCovariance.precisionsOf`.
   * @returns {Promise<{rowOf: Int32Array, variances: Float64Array[]}>}
   */
  async geolevelVariances(table, geolevel, precisions) {
    return this.ask({ kind: "geolevel", table, geolevel, precisions: precisions ?? null });
  }

  /** Ends the worker. */
  close() {
    this.worker.terminate();
    this.fail("the worker was closed");
  }

  /**
   * @param {object} message
   * @returns {Promise<any>}
   */
  ask(message) {
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, ...message });
    });
  }

  /** @param {{id: number, kind: string, message?: string}} answer */
  receive(answer) {
    const waiting = this.waiting.get(answer.id);
    this.waiting.delete(answer.id);
    if (answer.kind === "failed") waiting?.reject(new Error(answer.message));
    else waiting?.resolve(answer);
  }

  /** @param {string} why */
  fail(why) {
    for (const { reject } of this.waiting.values()) reject(new Error(why));
    this.waiting.clear();
  }
}
