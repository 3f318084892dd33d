/** What a release can be asked about: its attributes with their recodes, and its kinds of areas. */

import { say } from "../parts/language.js";
import { shown } from "../parts/shown.js";
import { kindTitle, levelTitle } from "../explorer/site.js";

/** @typedef {import("../explorer/site.js").Site} Site */
/** @typedef {import("../explorer/site.js").Kind} Kind */
/** @typedef {import("./grammar.js").Question} Question */

/** The field of all areas, which no attribute can be. */
export const AREAS = "areas";

/**
 * @typedef {object} Grouping a way to divide a field: the levels of an attribute, a recode of them, or a kind of areas
 * @property {string} name as a question has it
 * @property {string} title
 * @property {string[]} levels none of a kind of areas
 * @property {string[]} labels what the levels are called
 * @property {Kind | null} kind
 */

/** @typedef {{id: string, title: string, groupings: Grouping[]}} Field */

export class Catalogue {
  /** @type {Field[]} */
  fields;

  /** @param {Site} site */
  constructor(site) {
    const kinds = site.kinds.map((kind) => ({ name: kind.name, title: kindTitle(kind), levels: [], labels: [], kind }));
    const attributes = site.asking.attributes.map((attribute, place) => ({
      id: `attribute-${place}`,
      title: titled(attribute.title),
      groupings: [
        { ...named(attribute), title: say("each level") },
        ...attribute.recodes.map(named),
      ],
    }));
    this.fields = [{ id: AREAS, title: say("Areas"), groupings: kinds }, ...attributes];
  }

  /**
   * The field and the grouping of a name; null if the release has none. Capitals do not matter where the name is clear without.
   * @param {string} name
   * @returns {{field: Field, grouping: Grouping} | null}
   */
  find(name) {
    const all = this.fields.flatMap((field) => field.groupings.map((grouping) => ({ field, grouping })));
    const same = all.filter(({ grouping }) => grouping.name === name);
    const alike = all.filter(({ grouping }) => grouping.name.toLowerCase() === name.toLowerCase());
    return same[0] ?? (alike.length === 1 ? alike[0] : null);
  }

  /**
   * The kind of areas that makes rows or columns of a question; null if none does.
   * @param {Question} question
   */
  kindOf({ by }) {
    return by.map((name) => this.find(name)?.grouping.kind).find((kind) => kind) ?? null;
  }

  /**
   * What a level of an attribute, or a group of a recode, is called.
   * @param {string} name of the attribute or the recode
   * @param {string} level
   */
  level(name, level) {
    const grouping = this.find(name)?.grouping;
    return grouping?.labels[grouping.levels.indexOf(level)] ?? levelTitle(level);
  }

  /**
   * What a name of a question is called.
   * @param {string} name
   */
  title(name) {
    const found = this.find(name);
    if (!found) return shown(name);
    const { field, grouping } = found;
    if (grouping.kind) return grouping.title;
    return grouping === field.groupings[0] ? field.title : grouping.title;
  }
}

/**
 * @param {import("../explorer/site.js").Recode} factor
 * @returns {Grouping}
 */
function named({ name, title, levels, labels }) {
  return { name, title: titled(title), levels, labels: (labels ?? levels).map(levelTitle), kind: null };
}

/** @param {string} text */
function titled(text) {
  return shown(text.charAt(0).toUpperCase() + text.slice(1));
}
