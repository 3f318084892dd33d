/**
 * Monotone piecewise cubic interpolation.
 *
 * Problem. Values are given at increasing points. Wanted is a smooth function through them that rises where they rise.
 *
 * Steps. The slope at an inner point is a weighted harmonic mean of the slopes of the two intervals beside it, or 0 if
 * these differ in sign. The slope at an end follows from the three points there. Between two points the function is the
 * cubic with these values and slopes.
 *
 * Source: Fritsch and Butland 1984, SIAM J. Sci. Stat. Comput. 5, 300; the same as scipy's `PchipInterpolator`.
 */

/** A monotone interpolation. */
export class Pchip {
  /**
   * @param {Float64Array} x Points, increasing; three or more.
   * @param {Float64Array} y Values.
   */
  constructor(x, y) {
    this.x = x;
    this.y = y;
    this.slopes = slopesOf(x, y);
  }

  /**
   * The value at a point between the first and the last.
   * @param {number} at
   * @returns {number}
   */
  value(at) {
    const i = this.interval(at);
    const width = this.x[i + 1] - this.x[i];
    const rise = (this.y[i + 1] - this.y[i]) / width;
    const [left, right] = [this.slopes[i], this.slopes[i + 1]];
    const bend = (left + right - 2 * rise) / width;
    const moved = at - this.x[i];
    return this.y[i] + moved * (left + moved * ((rise - left) / width - bend + (moved * bend) / width));
  }

  /**
   * The interval that contains a point.
   * @param {number} at
   */
  interval(at) {
    let low = 0;
    let high = this.x.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.x[middle] <= at) low = middle;
      else high = middle;
    }
    return low;
  }
}

/**
 * @param {Float64Array} x @param {Float64Array} y
 * @returns {Float64Array}
 */
function slopesOf(x, y) {
  const last = x.length - 1;
  const width = (/** @type {number} */ i) => x[i + 1] - x[i];
  const rise = (/** @type {number} */ i) => (y[i + 1] - y[i]) / width(i);
  const out = new Float64Array(x.length);
  for (let i = 1; i < last; i++) {
    if (Math.sign(rise(i)) !== Math.sign(rise(i - 1)) || rise(i) === 0) continue;
    const [before, after] = [2 * width(i) + width(i - 1), width(i) + 2 * width(i - 1)];
    out[i] = (before + after) / (before / rise(i - 1) + after / rise(i));
  }
  out[0] = endSlope(width(0), width(1), rise(0), rise(1));
  out[last] = endSlope(width(last - 1), width(last - 2), rise(last - 1), rise(last - 2));
  return out;
}

/**
 * The slope at an end, from the interval there and the next one.
 * @param {number} width @param {number} nextWidth
 * @param {number} rise @param {number} nextRise
 */
function endSlope(width, nextWidth, rise, nextRise) {
  const slope = ((2 * width + nextWidth) * rise - width * nextRise) / (width + nextWidth);
  if (Math.sign(slope) !== Math.sign(rise)) return 0;
  if (Math.sign(rise) !== Math.sign(nextRise) && Math.abs(slope) > 3 * Math.abs(rise)) return 3 * rise;
  return slope;
}
