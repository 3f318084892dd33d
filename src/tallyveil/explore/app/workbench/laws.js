/** The laws of the noise of one answer: discrete Gaussian and discrete Laplace, as `tallyveil.noise.laws` has them. */

/** @typedef {"discrete_gaussian" | "discrete_laplace"} Mechanism */

/**
 * The variance of the noise.
 * @param {Mechanism} mechanism
 * @param {number} parameter  variance parameter of the Gaussian, or scale of the Laplace
 */
export function varianceOf(mechanism, parameter) {
  if (mechanism === "discrete_laplace") return 1 / (2 * Math.sinh(1 / (2 * parameter)) ** 2);
  if (parameter <= 0.5) {
    const { total, moment } = sums(1 / (2 * parameter));
    return (2 * moment) / (1 + 2 * total);
  }
  const { total, moment } = sums(2 * Math.PI ** 2 * parameter);
  return parameter - (8 * (Math.PI * parameter) ** 2 * moment) / (1 + 2 * total);
}

/**
 * Smallest m for which the noise lies within m with a probability of at least 95 %.
 * @param {Mechanism} mechanism
 * @param {number} parameter
 */
export function marginOf(mechanism, parameter) {
  if (mechanism === "discrete_laplace") {
    // P(|X| > m) = 2 q^(m + 1) / (1 + q) with q = exp(-1 / scale)
    const q = Math.exp(-1 / parameter);
    return Math.max(0, Math.ceil(-parameter * Math.log((0.05 * (1 + q)) / 2) - 1));
  }
  const most = Math.ceil(12 * Math.sqrt(parameter)) + 12;
  const weights = Float64Array.from({ length: most + 1 }, (_, x) => Math.exp(-(x * x) / (2 * parameter)));
  const whole = weights.reduceRight((sum, weight, x) => sum + (x === 0 ? 1 : 2) * weight, 0);
  let beyond = 0, margin = most;
  while (margin > 0 && beyond + 2 * weights[margin] <= 0.05 * whole) beyond += 2 * weights[margin--];
  return margin;
}

/**
 * The sums over x = 1, 2, ... of exp(-rate x^2) and of x^2 exp(-rate x^2).
 * @param {number} rate
 */
function sums(rate) {
  let total = 0, moment = 0;
  for (let x = 1; x < 40; x++) {
    const weight = Math.exp(-rate * x * x);
    total += weight;
    moment += x * x * weight;
  }
  return { total, moment };
}
