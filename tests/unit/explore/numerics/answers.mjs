// Runs the page's numerics without a page. A task is a line of JSON on the standard input, and its answer one on the output.
// Infinity and NaN are written as text, because JSON has no such numbers.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { answerLines } from "../answer-lines.mjs";

const [folder] = process.argv.slice(2);
const { TreeCovariance, districtIntervals, levelOfEach, normalInterval, unifiedInterval } = await import(
  pathToFileURL(`${folder}/index.js`).href
);

const tasks = {
  variances({ sites }) {
    return sites.map(({ site, districts, geolevels }) => {
      const tree = opened(site);
      const found = districts.map(({ rows, minus }) =>
        joined(tree, tree.districtVariances(Int32Array.from(rows), minus ? Int32Array.from(minus) : undefined)),
      );
      return { districts: found, geolevels: geolevels.map((geolevel) => ofLevel(tree, geolevel)) };
    });
  },
  changed({ site, precisions, geolevels }) {
    const tree = opened(site);
    const made = tree.withPrecisions(0, precisions.map((level) => Float64Array.from(level)));
    return { before: tree.precisionsOf(0), geolevels: geolevels.map((geolevel) => ofLevel(made, geolevel)) };
  },
  intervals({ kind, cases }) {
    const make = kind === "normal" ? normalInterval : unifiedInterval;
    return cases.map(([estimate, variance, level, together]) => make(estimate, Number(variance), levelOfEach(level, together)));
  },
  district({ estimates, variances, asked }) {
    return districtIntervals(estimates.map(Number), variances.map(Number), asked);
  },
};

function opened(site) {
  const parts = JSON.parse(readFileSync(`${site}/data/district.json`, "utf8"));
  const bytes = readFileSync(`${site}/data/district.bin`);
  return TreeCovariance.from(parts, bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
}

function joined(tree, variances) {
  return tree.tables.flatMap((table) => Array.from(variances[table]));
}

function ofLevel(tree, geolevel) {
  const tables = tree.tables.map((table) => tree.geolevelVariances(table, geolevel));
  return Array.from(tables[0].rowOf, (_, geounit) =>
    tables.flatMap(({ rowOf, variances }) => Array.from(variances[rowOf[geounit]])),
  );
}

function plain(value) {
  if (ArrayBuffer.isView(value)) return Array.from(value);
  return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
}

await answerLines(tasks, (_, value) => plain(value));
