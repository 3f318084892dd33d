/**
 * Exact variances and intervals of areas, from what a release publishes. No DOM is used, so `node` runs it too.
 *
 *     import { TreeCovariance, districtIntervals } from "./numerics/index.js";
 *     const tree = await TreeCovariance.load("data/district.json");
 *     const variances = tree.districtVariances(Int32Array.of(17, 18, 40));
 *
 * The modules, from the bottom: `packing`, `inverse` and `spectral` compute with block-diagonal matrices; `directions`
 * decides what is known exactly and what is not known at all; `grouping` finds geounits that share their blocks;
 * `sparse_grams` turns covariances into variances of answers;
 * `filtering` goes up the tree, `smoothing` down, `regions` over a district, with `unknown` for unmeasured directions;
 * `fit` is one model, `description` reads it, and `tree_covariance` has all models of a release. `normal_law`, `pchip`,
 * `feldman_cousins` and `interval` make intervals. `worker` and `worker_client` do all this in a thread of its own.
 */

export { districtIntervals, levelOfEach, normalInterval, unifiedInterval } from "./interval.js";
export { TreeCovariance } from "./tree_covariance.js";
export { CovarianceWorker } from "./worker_client.js";
