/** Say in plain sentences what a count, its estimate and its interval are. */

import { phrase, say } from "../parts/language.js";
import { count, decimal, rounded, share } from "../parts/numbers.js";

/** @typedef {import("./areas.js").Numbers} Numbers */

/**
 * @typedef {object} Answer what one answer of a table is in an area
 * @property {number | null} published
 * @property {number | null} estimate
 * @property {number | null} error
 * @property {number | null} low
 * @property {number | null} high
 */

/**
 * The text of an estimate: a count that is known exactly is whole.
 * @param {Answer} answer
 */
export function estimateText(answer) {
  return answer.error === 0 ? count(answer.estimate) : decimal(answer.estimate);
}

export const EXACT = phrase("This count is exact: it was published without noise, or it follows from counts that were.");

/**
 * Whether a count is published without noise: its estimate and both ends of its interval are the same number.
 * @param {Answer} answer
 */
export function isExact(answer) {
  return answer.error === 0 && answer.estimate === answer.published;
}

/**
 * One answer out of the numbers of a table.
 * @param {Numbers} numbers
 * @param {number} place
 * @returns {Answer}
 */
export function answerOf(numbers, place) {
  return {
    published: numbers.published[place],
    estimate: numbers.estimate[place],
    error: numbers.error[place],
    low: numbers.low[place],
    high: numbers.high[place],
  };
}

/**
 * Which side of its interval a published count is on: below, inside, above; null without an interval.
 * @param {Answer} answer
 * @returns {-1 | 0 | 1 | null}
 */
export function side(answer) {
  const { published, low, high } = answer;
  if (published === null || low === null) return null;
  if (published < low) return -1;
  return high !== null && published > high ? 1 : 0;
}

/**
 * The ends of an interval.
 * @param {Answer} answer
 */
export function intervalText(answer) {
  if (answer.low === null) return "–";
  if (answer.high === null) return say("{number} or more", { number: count(answer.low) });
  return answer.low === answer.high ? count(answer.low) : say("{first} to {last}", { first: count(answer.low), last: count(answer.high) });
}

/**
 * What an answer says, sentence by sentence.
 * @param {Answer} answer
 * @param {string} unit what is counted, such as persons
 * @param {number} level level of the intervals
 * @returns {string[]}
 */
export function answerSentences(answer, unit, level) {
  const published = answer.published === null ? [] : [publishedSentence(answer.published, unit)];
  if (answer.estimate === null) {
    return [...published, say("The noisy measurements do not determine this count, so it has no unbiased estimate and no full interval.")];
  }
  if (isExact(answer)) return [...published, say(EXACT)];
  if (answer.error === 0) {
    return [...published, say("The count before noise is known exactly: it is {number}.", { number: count(answer.estimate) })];
  }
  const estimate = decimal(answer.estimate);
  const said = [...published, answer.error === null
    ? say("The unbiased estimate from the noisy measurements is {estimate}.", { estimate })
    : say("The unbiased estimate from the noisy measurements is {estimate}, with a standard error of {error}.", { estimate, error: rounded(answer.error) })];
  if (answer.low === null) return said;
  return [...said, say("The {level} interval of the count before noise is {interval}.", { level: share(level), interval: intervalText(answer) })];
}

/**
 * @param {number | null} published
 * @param {string} unit
 */
export function publishedSentence(published, unit) {
  return say("The published count is {number} {units}.", { number: count(published), units: unit });
}

/**
 * Why a published count may lie outside its interval; null if it does not.
 * @param {Answer} answer
 * @returns {string | null}
 */
export function outsideSentence(answer) {
  const where = side(answer);
  if (where === null || where === 0) return null;
  const lies = where < 0 ? say("The published count lies below its interval.") : say("The published count lies above its interval.");
  return `${lies} ` + say("This is not a mistake. It can happen because published counts are whole, are not negative and add up, " +
    "or because this is one of the few intervals that miss. The interval is about the count before noise. The published count need not be in its middle.");
}
