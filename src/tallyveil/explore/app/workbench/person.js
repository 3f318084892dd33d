/**
 * What a budget means for one person: how well an attacker can tell one record from another.
 *
 * The attacker knows everybody else's record and looks at all noisy answers. No rule with a rate a of false alarms has
 * more power than delta(epsilon) + a exp(epsilon), whatever epsilon is; and none has more than
 * 1 - (1 - delta(epsilon) - a) / exp(epsilon). The least of these over epsilon is the bound that is shown. Every delta is
 * an upper bound, so the power is one too.
 *
 * Source: Dong, Roth, Su 2022, Proposition 2.12; docs/explain/what-a-release-promises.md.
 */

import { deltaAt, epsilonAt } from "./epsilon.js";

/** @typedef {import("./losses.js").Losses} Losses */
/** @typedef {{ alarms: number, power: number }} Point */
/** @typedef {{ advantage: number, table: Point[], curve: Point[] }} Person */

export const ALARMS = [0.001, 0.01, 0.05, 0.1];
const POINTS = 28;
const WIDTH = 1e-5;
const GOLDEN = (Math.sqrt(5) - 1) / 2;

/**
 * @param {Losses} losses
 * @returns {Person | null}
 */
export function personOf(losses) {
  const most = epsilonAt(losses, 1e-6, WIDTH);
  if (!most) return null;
  /** @type {{ epsilon: number, delta: number }[]} */
  const known = [];
  for (let i = 0; i <= POINTS; i++) {
    const epsilon = (most.epsilon * i) / POINTS, delta = deltaAt(losses, epsilon, WIDTH);
    if (delta === null) return null;
    known.push({ epsilon, delta });
  }
  const table = ALARMS.map((alarms) => ({ alarms, power: refined(losses, known, alarms) }));
  return { advantage: known[0].delta, table, curve: curveOf((alarms) => leastPower(known, alarms)) };
}

/**
 * The same where the privacy loss is never above epsilon, and nothing else is known.
 * @param {number} epsilon
 * @returns {Person}
 */
export function personOfPure(epsilon) {
  const known = [{ epsilon, delta: 0 }];
  /** @param {number} alarms */
  const power = (alarms) => leastPower(known, alarms);
  return {
    advantage: Math.tanh(epsilon / 2) * (1 + 1e-15),
    table: ALARMS.map((alarms) => ({ alarms, power: power(alarms) })),
    curve: curveOf(power),
  };
}

/**
 * @param {(alarms: number) => number} power
 * @returns {Point[]}
 */
function curveOf(power) {
  return Array.from({ length: 101 }, (_, i) => {
    const x = i / 100, alarms = x * x * (3 - 2 * x); // denser at both ends, where the curve bends
    return { alarms, power: power(alarms) };
  });
}

/**
 * @param {{ epsilon: number, delta: number }[]} known
 * @param {number} alarms
 */
function leastPower(known, alarms) {
  let least = 1;
  for (const { epsilon, delta } of known) {
    const grown = Math.exp(epsilon);
    least = Math.min(least, delta + alarms * grown, 1 - (1 - delta - alarms) / grown);
  }
  return Math.min(1, least * (1 + 1e-14) + 1e-15);
}

/**
 * The least power near the best known epsilon, by golden-section search.
 * @param {Losses} losses
 * @param {{ epsilon: number, delta: number }[]} known
 * @param {number} alarms
 */
function refined(losses, known, alarms) {
  const bound = (/** @type {{ epsilon: number, delta: number }} */ one) => one.delta + alarms * Math.exp(one.epsilon);
  const best = known.reduce((place, one, i) => (bound(one) < bound(known[place]) ? i : place), 0);
  let low = known[Math.max(0, best - 1)].epsilon, high = known[Math.min(known.length - 1, best + 1)].epsilon;
  let least = leastPower(known, alarms);
  for (let i = 0; i < 8; i++) {
    const [left, right] = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)].map((epsilon) => {
      const delta = deltaAt(losses, epsilon, WIDTH) ?? 1;
      least = Math.min(least, leastPower([{ epsilon, delta }], alarms));
      return { epsilon, value: bound({ epsilon, delta }) };
    });
    if (left.value < right.value) high = right.epsilon;
    else low = left.epsilon;
  }
  return least;
}
