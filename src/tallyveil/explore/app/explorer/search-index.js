/** Find areas by a name or by the beginning of a geocode. */

import { ParquetFile } from "../parts/parquet.js";

/** @typedef {import("./area.js").Area} Area */
/** @typedef {{kind: number, row: number, text: string, words: string}} Named */

const MOST = 12;
const PER_KIND = 4; // of several kinds; of one there are up to MOST

export class SearchIndex {
  /** @type {Promise<Named[]> | null} */
  #names = null;
  #areas;

  /** @param {import("./areas.js").Areas} areas */
  constructor(areas) {
    this.#areas = areas;
  }

  /**
   * Areas that fit a text, the best first.
   * @param {string} text
   * @param {number | null} [only] the kind of the areas; null for any
   * @returns {Promise<Area[]>}
   */
  async find(text, only = null) {
    const typed = text.trim();
    if (typed === "") return [];
    const [named, coded] = await Promise.all([this.#byName(plain(typed), only), this.#byGeocode(typed, only)]);
    const seen = new Set();
    const found = [...named, ...coded].filter(({ kind, row }) => !seen.has(`${kind}/${row}`) && seen.add(`${kind}/${row}`));
    return Promise.all(found.slice(0, MOST).map(({ kind, row }) => this.#areas.area(kind, row)));
  }

  /**
   * @param {string} typed
   * @param {number | null} only
   */
  async #byName(typed, only) {
    if (!this.#areas.site.kinds.some((kind) => kind.named)) return [];
    this.#names ??= loadNames(this.#areas.site.language);
    const names = await this.#names;
    return names
      .filter(({ kind }) => only === null || kind === only)
      .map((name) => ({ ...name, rank: rank(name.words, typed) }))
      .filter((name) => name.rank < 3)
      .sort((a, b) => a.rank - b.rank || a.words.length - b.words.length || a.kind - b.kind || a.row - b.row)
      .slice(0, MOST);
  }

  /**
   * @param {string} typed
   * @param {number | null} only
   */
  async #byGeocode(typed, only) {
    const kinds = this.#areas.site.kinds.filter(({ number }) => only === null || number === only);
    const found = await Promise.all(kinds.map(async (kind) => {
      const most = only === null ? PER_KIND : MOST;
      const rows = [];
      for (const chunk of this.#areas.chunksWith(kind.number, typed)) {
        const codes = await this.#areas.geocodes(kind.number, chunk);
        for (let place = 0; place < codes.length && rows.length < most; place++) {
          if (codes[place].startsWith(typed)) rows.push({ kind: kind.number, row: chunk * kind.chunk + place, exact: codes[place] === typed });
        }
        if (rows.length === most) break;
      }
      return rows;
    }));
    return found.flat().sort((a, b) => Number(b.exact) - Number(a.exact) || a.kind - b.kind);
  }
}

/**
 * @param {string | undefined} language that in which areas are named
 * @returns {Promise<Named[]>}
 */
async function loadNames(language) {
  const file = await ParquetFile.load("data/names.parquet");
  const own = `name:${language}`;
  const [kinds, rows, names, ours = []] = await file.columns(["kind", "row", "name", ...(file.names.has(own) ? [own] : [])]);
  return names.map((name, place) => {
    const text = /** @type {string} */ (ours[place] ?? name);
    return { kind: /** @type {number} */ (kinds[place]), row: /** @type {number} */ (rows[place]), text, words: plain(text) };
  });
}

/**
 * A text without accents and capitals.
 * @param {string} text
 */
function plain(text) {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
}

/**
 * 0 for a name that begins with the text, 1 where a word does, 2 where it is inside, 3 where it is not.
 * @param {string} words
 * @param {string} typed
 */
function rank(words, typed) {
  const place = words.indexOf(typed);
  if (place < 0) return 3;
  if (place === 0) return 0;
  return words.includes(` ${typed}`) ? 1 : 2;
}
