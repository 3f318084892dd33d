/** Read Parquet files, column by column. */

import { parquetMetadata } from "../../vendor/hyparquet/src/metadata.js";
import { parquetRead } from "../../vendor/hyparquet/src/read.js";

/** @typedef {(number | string | boolean | null)[]} Column */

/**
 * A Parquet file that was loaded whole: sites are served without range requests.
 * Columns are decoded when they are asked for, and kept.
 */
export class ParquetFile {
  /** @type {Map<string, Promise<Column>>} */
  #columns = new Map();
  #bytes;
  #metadata;
  #names;

  /** @param {ArrayBuffer} bytes */
  constructor(bytes) {
    this.#bytes = bytes;
    this.#metadata = parquetMetadata(bytes);
    this.#names = new Set(this.#metadata.schema.slice(1).map((column) => column.name));
  }

  /**
   * @param {string} address
   * @returns {Promise<ParquetFile>}
   */
  static async load(address) {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`${address} cannot be read: the server answered ${answer.status}.`);
    return new ParquetFile(await answer.arrayBuffer());
  }

  /** @returns {number} */
  get rows() {
    return Number(this.#metadata.num_rows);
  }

  /** @returns {Set<string>} names of all columns */
  get names() {
    return this.#names;
  }

  /**
   * The values of one column. Whole numbers of 64 bits become numbers: counts are far below 2^53.
   * @param {string} name
   * @returns {Promise<Column>}
   */
  async column(name) {
    const [values] = await this.columns([name]);
    return values;
  }

  /**
   * The values of several columns, decoded together: each reading plans the whole file.
   * @param {string[]} names
   * @returns {Promise<Column[]>}
   */
  columns(names) {
    const fresh = names.filter((name) => !this.#columns.has(name));
    if (fresh.length > 0) {
      const decoded = this.#decode(fresh);
      for (const name of fresh) this.#columns.set(name, decoded.then((columns) => /** @type {Column} */ (columns.get(name))));
    }
    return Promise.all(names.map((name) => /** @type {Promise<Column>} */ (this.#columns.get(name))));
  }

  /**
   * @param {string[]} names
   * @returns {Promise<Map<string, Column>>}
   */
  async #decode(names) {
    /** @type {Map<string, Column>} */
    const columns = new Map(names.map((name) => [name, new Array(this.rows).fill(null)]));
    await parquetRead({
      file: this.#bytes,
      metadata: this.#metadata,
      columns: names,
      onChunk: ({ columnName, columnData, rowStart }) => {
        const values = /** @type {Column} */ (columns.get(columnName));
        for (let place = 0; place < columnData.length; place++) {
          const value = columnData[place];
          values[rowStart + place] = typeof value === "bigint" ? Number(value) : value ?? null;
        }
      },
    });
    return columns;
  }
}
