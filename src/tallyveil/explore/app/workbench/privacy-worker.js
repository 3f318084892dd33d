/** Computes what plans cost, in a thread of its own. */

import { answering } from "./asks.js";
import { budgetFor, costOf, meaningOf, RELATIONS } from "./privacy.js";

const CURVE_WIDTH = 1e-5;

answering({
  cost: ({ question }) => Object.fromEntries(RELATIONS.map((relation) => [relation, costOf(question, relation)])),
  person: ({ question }) => meaningOf(question),
  curve: ({ question, factors }) => factors.map((/** @type {number} */ factor) =>
    costOf(question, question.neighbours, factor, CURVE_WIDTH).epsilon),
  budget: ({ question, epsilon }) => budgetFor(question, epsilon),
});
