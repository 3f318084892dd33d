/** Smallest, median and largest of many standard deviations, without sorting them. */

/** @typedef {import("./estimates.js").LevelResult} LevelResult */
/** @typedef {{ n: number, smallest: number, median: number, largest: number }} Statistics  n is the number of geounits */

/**
 * @param {Statistics} statistics
 * @param {number} factor
 * @returns {Statistics}
 */
export function scaled({ n, smallest, median, largest }, factor) {
  return { n, smallest: factor * smallest, median: factor * median, largest: factor * largest };
}

/**
 * Smallest, median and largest standard deviation of all answers of all geounits.
 * @param {LevelResult} result
 * @param {ArrayLike<number>} gramOf
 * @returns {Statistics}
 */
export function statistics({ weights, variances }, gramOf) {
  /** @type {Map<number, number>} */
  const answers = new Map();
  for (let i = 0; i < gramOf.length; i++) answers.set(gramOf[i], (answers.get(gramOf[i]) ?? 0) + 1);
  const values = new Float64Array(variances.length * answers.size), numbers = new Float64Array(values.length);
  let place = 0, geounits = 0, smallest = Infinity, largest = 0;
  variances.forEach((row, i) => {
    geounits += weights[i];
    for (const [gram, count] of answers) {
      values[place] = row[gram];
      numbers[place++] = weights[i] * count;
      smallest = Math.min(smallest, row[gram]);
      largest = Math.max(largest, row[gram]);
    }
  });
  const median = weightedValue(values, numbers, Math.floor((geounits * gramOf.length) / 2));
  return { n: geounits, smallest: Math.sqrt(smallest), median: Math.sqrt(median), largest: Math.sqrt(largest) };
}

/**
 * The value with a rank in a list in which each value stands a number of times. Both arrays are reordered. Each step
 * halves what is left by a pivot, so the work grows with the number of values and not faster.
 * @param {Float64Array} values
 * @param {Float64Array} numbers
 * @param {number} rank  0 for the smallest
 */
export function weightedValue(values, numbers, rank) {
  let low = 0, high = values.length - 1;
  for (;;) {
    const pivot = middle(values[low], values[(low + high) >> 1], values[high]);
    let below = low, at = low, above = high, less = 0, same = 0;
    while (at <= above) {
      if (values[at] < pivot) {
        less += numbers[at];
        exchange(values, numbers, at++, below++);
      } else if (values[at] > pivot) {
        exchange(values, numbers, at, above--);
      } else {
        same += numbers[at++];
      }
    }
    if (rank < less) {
      high = below - 1;
    } else if (rank < less + same || at > high) {
      return pivot;
    } else {
      rank -= less + same;
      low = at;
    }
  }
}

/** @type {(a: number, b: number, c: number) => number} */
const middle = (a, b, c) => Math.max(Math.min(a, b), Math.min(Math.max(a, b), c));

/** @type {(values: Float64Array, numbers: Float64Array, i: number, k: number) => void} */
function exchange(values, numbers, i, k) {
  [values[i], values[k]] = [values[k], values[i]];
  [numbers[i], numbers[k]] = [numbers[k], numbers[i]];
}
