/**
 * Epsilon that follows from rho alone, as `tallyveil.accounting.renyi` has it.
 *
 * The bound holds at every order of the Renyi divergence. A search chooses the order, and the bound there is raised by
 * more than its rounding errors, so that it is never below the least one.
 *
 * Source: Canonne, Kamath, Steinke 2020, Proposition 12, solved for epsilon.
 */

const RAISED = 4e-13;

/**
 * @param {number} rho
 * @param {number} delta
 */
export function zcdpEpsilon(rho, delta) {
  const logDelta = Math.log(delta);
  /** @param {number} log  logarithm of the order less one */
  const bound = (log) => {
    const excess = Math.exp(log);
    return (1 + excess) * rho - Math.log1p(1 / excess) - (Math.log1p(excess) + logDelta) / excess;
  };
  let low = (Math.log(1 - logDelta) - Math.log(rho)) / 2 - 30, high = low + 60;
  const golden = (Math.sqrt(5) - 1) / 2;
  for (let i = 0; i < 90; i++) {
    const left = high - golden * (high - low), right = low + golden * (high - low);
    if (bound(left) < bound(right)) high = right;
    else low = left;
  }
  const least = bound((low + high) / 2);
  return Math.max(0, least + RAISED * (1 + Math.abs(least)));
}
