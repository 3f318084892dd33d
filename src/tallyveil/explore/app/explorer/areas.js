/** The areas of a site and their numbers. Files hold a thousand areas each, and only those that are shown are read. */

import { ParquetFile } from "../parts/parquet.js";
import { areaOf, compareCodes, finite } from "./area.js";

/** @typedef {import("./site.js").Site} Site */
/** @typedef {import("./site.js").Kind} Kind */

/** @typedef {import("./area.js").Area} Area */

/**
 * @typedef {object} Numbers the answers of one table in one area
 * @property {(number | null)[]} published
 * @property {(number | null)[]} estimate
 * @property {(number | null)[]} error standard errors
 * @property {(number | null)[]} low
 * @property {(number | null)[]} high
 */

/** The letters of the columns. @type {Record<keyof Numbers, string>} */
const LETTERS = { published: "p", estimate: "e", error: "s", low: "l", high: "u" };

export class Areas {
  /** @type {Map<string, Promise<ParquetFile>>} */
  #files = new Map();

  /** @param {Site} site */
  constructor(site) {
    this.site = site;
  }

  /**
   * One area.
   * @param {number} kind
   * @param {number} row
   * @returns {Promise<Area>}
   */
  async area(kind, row) {
    const [area] = await this.areas(kind, [row]);
    return area;
  }

  /**
   * Areas of one kind, by their rows.
   * @param {number} kind
   * @param {Iterable<number>} rows
   * @returns {Promise<Area[]>}
   */
  async areas(kind, rows) {
    const wanted = [...rows];
    const one = this.site.kinds[kind];
    const numbers = [...new Set(wanted.map((row) => Math.floor(row / one.chunk)))];
    /** @type {Map<number, Record<string, import("../parts/parquet.js").Column>>} */
    const chunks = new Map();
    await Promise.all(numbers.map(async (number) => chunks.set(number, await this.#list(kind, number))));
    return wanted.map((row) => {
      const chunk = /** @type {Record<string, any[]>} */ (chunks.get(Math.floor(row / one.chunk)));
      return areaOf(one, row, chunk, row % one.chunk, this.site.language);
    });
  }

  /**
   * The areas of consecutive rows.
   * @param {number} kind
   * @param {number} start
   * @param {number} stop
   */
  range(kind, start, stop) {
    return this.areas(kind, Array.from({ length: stop - start }, (_, place) => start + place));
  }

  /**
   * The area with a geocode; null if there is none.
   * @param {number} kind
   * @param {string} geocode
   * @returns {Promise<Area | null>}
   */
  async find(kind, geocode) {
    for (const chunk of this.chunksWith(kind, geocode)) {
      const codes = await this.geocodes(kind, chunk);
      const place = codes.indexOf(geocode);
      if (place >= 0) return this.area(kind, chunk * this.site.kinds[kind].chunk + place);
    }
    return null;
  }

  /**
   * The chunks that may hold geocodes that begin with a text.
   * @param {number} kind
   * @param {string} prefix
   * @returns {number[]}
   */
  chunksWith(kind, prefix) {
    const { first_geocodes: first, sorted } = this.site.kinds[kind];
    const all = first.map((_, chunk) => chunk);
    if (sorted === false) return all;
    return all.filter((chunk) => {
      const begins = compareCodes(first[chunk], prefix) <= 0 || first[chunk].startsWith(prefix);
      const ends = chunk + 1 === first.length || compareCodes(first[chunk + 1], prefix) > 0;
      return begins && ends;
    });
  }

  /**
   * The geocodes of a chunk.
   * @param {number} kind
   * @param {number} chunk
   */
  async geocodes(kind, chunk) {
    const file = await this.#file(kind, `list-${chunk}`);
    return /** @type {string[]} */ (await file.column("geocode"));
  }

  /**
   * The numbers of an area in one table.
   * @param {Area} area
   * @param {number} table
   * @param {boolean} [other] whether of the release that this one is compared with
   * @returns {Promise<Numbers>}
   */
  async numbers(area, table, other = false) {
    const [numbers] = await this.numbersOf(area.kind.number, [area.row], table, null, other);
    return numbers;
  }

  /**
   * The numbers of areas of one kind in one table.
   * @param {number} kind
   * @param {number[]} rows
   * @param {number} table
   * @param {number | null} answer one answer only; null for all
   * @param {boolean} [other]
   * @returns {Promise<Numbers[]>}
   */
  async numbersOf(kind, rows, table, answer, other = false) {
    const { chunk: size } = this.site.kinds[kind];
    const answers = answer === null ? this.site.tables[table].answers.map((_, place) => place) : [answer];
    const names = Object.values(LETTERS).flatMap((letter) => answers.map((one) => `${letter}${one}`));
    const chunks = new Map(await Promise.all([...new Set(rows.map((row) => Math.floor(row / size)))].map(async (chunk) =>
      /** @type {const} */ ([chunk, await this.columns(kind, chunk, table, names, other)]))));
    return rows.map((row) => {
      const columns = /** @type {(import("../parts/parquet.js").Column | null)[]} */ (chunks.get(Math.floor(row / size)));
      const values = columns.map((column) => finite(column?.[row % size]));
      return /** @type {Numbers} */ (Object.fromEntries(Object.keys(LETTERS).map((name, which) =>
        [name, values.slice(which * answers.length, (which + 1) * answers.length)])));
    });
  }

  /**
   * Columns of the numbers of a chunk; null for what the release does not have.
   * @param {number} kind
   * @param {number} chunk
   * @param {number} table
   * @param {string[]} names a letter and the place of an answer, such as p0
   * @param {boolean} [other]
   * @returns {Promise<(import("../parts/parquet.js").Column | null)[]>}
   */
  async columns(kind, chunk, table, names, other = false) {
    const file = await this.#file(kind, `table-${table}-${chunk}`, other);
    const there = names.filter((name) => file.names.has(name));
    const columns = await file.columns(there);
    const found = new Map(there.map((name, place) => [name, columns[place]]));
    return names.map((name) => found.get(name) ?? null);
  }

  /**
   * The finest geounits of an area, as rows, in rising order.
   * @param {Area} area
   * @returns {Promise<Int32Array>}
   */
  async members(area) {
    const first = area.firstFinest;
    if (first !== null) return Int32Array.from({ length: area.nFinest }, (_, place) => first + place);
    const file = await this.#file(area.kind.number, `members-${Math.floor(area.row / area.kind.chunk)}`);
    const [entities, finest] = await file.columns(["entity", "finest"]);
    return Int32Array.from(entities.flatMap((entity, place) =>
      entity === area.row ? [/** @type {number} */ (finest[place])] : []));
  }

  /**
   * The entities of each family that share finest geounits with an area: how many of its finest geounits each one has.
   * @param {Area} area
   * @returns {Promise<{kind: number, row: number, shared: number}[]>}
   */
  async entities(area) {
    const { finest, kinds } = this.site;
    const { chunk: size } = kinds[finest];
    const rows = await this.members(area);
    const families = kinds.filter((kind) => kind.type === "family" && !kind.overlaps && kind !== area.kind);
    const chunks = [...new Set(Array.from(rows, (row) => Math.floor(row / size)))];
    const files = new Map(await Promise.all(chunks.map(async (chunk) =>
      /** @type {const} */ ([chunk, await this.#file(finest, `list-${chunk}`)]))));
    const found = await Promise.all(families.map(async (family) => {
      const name = `in_${family.number}`;
      const columns = new Map(await Promise.all([...files].map(async ([chunk, file]) =>
        /** @type {const} */ ([chunk, await file.column(name)]))));
      /** @type {Map<number, number>} */
      const shared = new Map();
      for (const row of rows) {
        const entity = columns.get(Math.floor(row / size))?.[row % size];
        if (typeof entity === "number") shared.set(entity, (shared.get(entity) ?? 0) + 1);
      }
      return [...shared].map(([row, n]) => ({ kind: family.number, row, shared: n }));
    }));
    return found.flat();
  }

  /**
   * The areas that contain an area, root first.
   * @param {Area} area
   * @returns {Promise<Area[]>}
   */
  async ancestors(area) {
    /** @type {Area[]} */
    const above = [];
    for (let low = area; low.parent !== null && low.kind.parent !== null;) {
      low = await this.area(low.kind.parent, low.parent);
      above.unshift(low);
    }
    return above;
  }

  /**
   * @param {number} kind
   * @param {number} chunk
   */
  async #list(kind, chunk) {
    const file = await this.#file(kind, `list-${chunk}`);
    const names = [...file.names].filter((name) => !name.startsWith("in_"));
    const columns = await file.columns(names);
    return Object.fromEntries(names.map((name, place) => [name, columns[place]]));
  }

  /**
   * @param {number} kind
   * @param {string} name
   * @param {boolean} [other]
   */
  #file(kind, name, other = false) {
    const address = `data/${other ? "other/" : ""}areas/${kind}/${name}.parquet`;
    const known = this.#files.get(address);
    if (known) return known;
    const loading = ParquetFile.load(address);
    this.#files.set(address, loading);
    loading.catch(() => this.#files.delete(address)); // so that it is asked for again
    return loading;
  }
}
