// Runs the page's worker and its client in one thread, with messages that are copied as between threads, and files in
// the place of addresses. Reads a site and districts as JSON from standard input, and writes the answers as JSON.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder] = process.argv.slice(2);
const { site, rows, minus, table, geolevel } = JSON.parse(readFileSync(0, "utf8"));

globalThis.fetch = async (address) => {
  try {
    const bytes = readFileSync(new URL(address));
    return {
      ok: true,
      status: 200,
      json: async () => JSON.parse(bytes.toString("utf8")),
      arrayBuffer: async () => bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length),
    };
  } catch {
    return { ok: false, status: 404 };
  }
};
globalThis.document = { baseURI: `${pathToFileURL(site).href}/` };

const toWorker = new EventTarget();
const toPage = new EventTarget();
const sent = (target, data) => queueMicrotask(() => target.dispatchEvent(Object.assign(new Event("message"), { data })));
globalThis.self = {
  addEventListener: toWorker.addEventListener.bind(toWorker),
  postMessage: (data) => sent(toPage, structuredClone(data)),
};
globalThis.Worker = class {
  constructor(address, { type }) {
    this.module = `${address}`.endsWith("/worker.js") && type === "module";
    this.addEventListener = toPage.addEventListener.bind(toPage);
  }
  postMessage(data) {
    if (this.module) sent(toWorker, structuredClone(data));
  }
  terminate() {}
};

await import(pathToFileURL(`${folder}/worker.js`).href);
const { CovarianceWorker } = await import(pathToFileURL(`${folder}/index.js`).href);
const said = (promise) => promise.then(() => "no error", (error) => error.message);

const missing = await said(CovarianceWorker.open("data/none.json"));
const worker = await CovarianceWorker.open("data/district.json");
const [plain, difference] = await Promise.all([
  worker.districtVariances(Int32Array.from(rows)),
  worker.districtVariances(Int32Array.from(rows), Int32Array.from(minus), [table]),
]);
const level = await worker.geolevelVariances(table, geolevel);
const twice = await said(worker.districtVariances(Int32Array.of(0, 0)));
const waiting = said(worker.districtVariances(Int32Array.of(0)));
worker.close();
const answer = {
  missing,
  gaussian: worker.gaussian,
  tables: worker.tables,
  plain: worker.tables.flatMap((one) => Array.from(plain[one])),
  difference: Object.entries(difference).map(([one, variances]) => [Number(one), Array.from(variances)]),
  level: Array.from(level.rowOf, (row) => Array.from(level.variances[row])),
  twice,
  closed: await waiting,
};
process.stdout.write(JSON.stringify(answer));
