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

  /** @param {ArrayBuffer} bytes */
  constructor(bytes) {
    this.#bytes = bytes;
    this.#metadata = parquetMetadata(bytes);
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

  /** @returns {string[]} names of all columns */
  get names() {
    return this.#metadata.schema.slice(1).map((column) => column.name);
  }

  /**
   * The values of one column. Whole numbers of 64 bits become numbers: counts are far below 2^53.
   * @param {string} name
   * @returns {Promise<Column>}
   */
  column(name) {
    const known = this.#columns.get(name);
    if (known) return known;
    const decoded = this.#decode(name);
    this.#columns.set(name, decoded);
    return decoded;
  }

  /**
   * @param {string} name
   * @returns {Promise<Column>}
   */
  async #decode(name) {
    /** @type {Column} */
    const values = new Array(this.rows).fill(null);
    await parquetRead({
      file: this.#bytes,
      metadata: this.#metadata,
      columns: [name],
      onChunk: ({ columnData, rowStart }) => {
        for (let place = 0; place < columnData.length; place++) {
          const value = columnData[place];
          values[rowStart + place] = typeof value === "bigint" ? Number(value) : value ?? null;
        }
      },
    });
    return values;
  }
}
