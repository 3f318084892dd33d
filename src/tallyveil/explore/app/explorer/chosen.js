/** The reader's own district: which finest geounits are chosen. The address has them, if they fit into it. */

import { readState, writeState } from "../parts/link-state.js";
import { parseRows, rowsText } from "./rows.js";

const TOO_LONG = "too-long"; // what the address says of a set that does not fit into it

export class Chosen {
  /** @type {Int32Array} */
  rows = new Int32Array();
  #text = "";
  #n;

  /** @param {number} n how many finest geounits there are */
  constructor(n) {
    this.#n = n;
  }

  /** Take the rows from the address, after it changed. */
  read() {
    const text = readState().district ?? "";
    if (text === this.#text) return;
    this.#text = text;
    this.rows = text === "" || text === TOO_LONG ? new Int32Array() : parseRows(text, this.#n) ?? new Int32Array();
  }

  /** Whether the address names a set that does not fit into it, and that this page does not have. */
  get lost() {
    return this.#text === TOO_LONG && this.rows.length === 0;
  }

  /** Whether a link carries the set. */
  get linked() {
    return this.#text !== TOO_LONG;
  }

  /**
   * Choose other rows.
   * @param {Int32Array} rows rising
   */
  choose(rows) {
    this.rows = rows;
    this.#text = rows.length === 0 ? "" : rowsText(rows) ?? TOO_LONG;
    writeState({ district: this.#text === "" ? null : this.#text });
  }
}
