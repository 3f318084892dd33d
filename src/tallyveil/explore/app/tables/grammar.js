/**
 * Questions in the words of `tallyveil ask`: written from what is chosen, and read back into it.
 *
 * The program that answers reads the words itself (`tallyveil.postprocess.derived.question`); this page reads them only to show
 * what a link asks for.
 */

/** @typedef {{name: string, labels: string[], span: boolean}} Condition a span has its first and its last label */

/**
 * @typedef {object} Question
 * @property {string[]} by attributes, recodes, and at most one kind of areas; of a measure, the first is what it is of
 * @property {Condition[]} where
 * @property {string[] | null} areas null for all
 * @property {string[]} minus
 * @property {string[] | null} shareOf what the denominator keeps; null if no share is asked for
 * @property {boolean} deviation
 * @property {string | null} measure such as "quantile 0.9"; null for counts
 * @property {string | null} across
 * @property {{name: string, groups: Condition[]}[]} groups groups that the question defines, of names among `by`, each under its label
 */

const WORDS = ["by", "into", "or", "across", "where", "and", "in", "minus", "as", "share", "of", "from", "to"];
// Python counts these control codes among the blanks: what is shown here is what the program understands.
const BLANK = "\\s\\x1c-\\x1f\\x85";
const BLANKS = new RegExp(`[${BLANK}]*`, "y");
const TOKEN = new RegExp(`"((?:[^"]|"")*)"|'((?:[^']|'')*)'|([=,])|([^${BLANK}=,'"]+)`, "y");
const SPECIAL = new RegExp(`[${BLANK}=,'"]`);
const TOTAL = "total";

/** The measures that compare areas. */
export const COMPARING = ["dissimilarity", "gini", "theil"];
const MEASURES = ["median", "quantile", "entropy", ...COMPARING];

/** @returns {Question} */
export function emptyQuestion() {
  return { by: [], where: [], areas: null, minus: [], shareOf: null, deviation: false, measure: null, across: null, groups: [] };
}

/**
 * The words of a question.
 * @param {Question} question
 * @returns {string}
 */
export function questionText(question) {
  const { by, where, areas, minus, shareOf, deviation, measure, across, groups } = question;
  // The total by areas, and not areas alone: both mean the same, and this says it.
  const rows = by.map((name) => {
    const own = groups.find((one) => one.name === name);
    return own ? `${written(name)} into ${own.groups.map(condition).join(" or ")}` : written(name);
  });
  const names = measure === null && by.length < 2 ? [TOTAL, ...rows] : rows;
  const said = [measure === null ? "" : `${measure} of`, names.join(" by ")];
  if (across !== null) said.push("across", written(across));
  if (where.length > 0) said.push("where", where.map(condition).join(" and "));
  if (areas !== null) said.push("in", areas.map(written).join(", "));
  if (minus.length > 0) said.push("minus", minus.map(written).join(", "));
  if (shareOf !== null) said.push("as share of", shareOf.length === 0 ? TOTAL : shareOf.map(written).join(" by "));
  if (deviation) said.push("as deviation");
  return said.filter((part) => part !== "").join(" ");
}

/** @param {Condition} of */
function condition({ name, labels, span }) {
  const [first, last] = labels;
  return span ? `${written(name)} from ${written(first)} to ${written(last)}` : `${written(name)} = ${labels.map(written).join(", ")}`;
}

/**
 * A name as a word of a question.
 * @param {string} name
 */
function written(name) {
  const plain = name !== "" && !SPECIAL.test(name) && !WORDS.includes(name) && !MEASURES.includes(name);
  return plain ? name : `"${name.replaceAll('"', '""')}"`;
}

/**
 * The question that words ask.
 * @param {string} text
 * @returns {Question}
 * @throws {Error} they have not the form of a question
 */
export function readQuestion(text) {
  const reader = new Reader(text);
  const measure = reader.measure();
  const { by, groups } = reader.rows();
  const across = reader.take("across") ? reader.name() : null;
  /** @type {Condition[]} */
  const where = [];
  if (reader.take("where")) {
    do where.push(reader.condition()); while (reader.take("and"));
  }
  const areas = reader.take("in") ? reader.names(",") : null;
  const minus = reader.take("minus") ? reader.names(",") : [];
  let shareOf = null;
  let deviation = false;
  if (reader.take("as")) {
    deviation = reader.take("deviation");
    if (!deviation) {
      if (!reader.take("share") || !reader.take("of")) throw unreadable();
      shareOf = reader.names("by").filter((name) => name !== TOTAL);
    }
  }
  reader.end();
  return { by: by.filter((name) => name !== TOTAL), where, areas, minus, shareOf, deviation, measure, across, groups };
}

/** The words of a question, one after another. */
class Reader {
  #tokens;
  #at = 0;

  /** @param {string} text */
  constructor(text) {
    this.#tokens = tokens(text);
  }

  /**
   * Whether the next word is this one of the grammar, which is then passed.
   * @param {string} word
   */
  take(word) {
    const token = this.#tokens[this.#at];
    const there = token !== undefined && token.plain && token.text === word;
    if (there) this.#at += 1;
    return there;
  }

  name() {
    const token = this.#tokens[this.#at];
    if (token === undefined || (token.plain && [...WORDS, "=", ","].includes(token.text))) throw unreadable();
    this.#at += 1;
    return token.text;
  }

  /** @param {string} sign what stands between two names */
  names(sign) {
    const names = [this.name()];
    while (this.take(sign)) names.push(this.name());
    return names;
  }

  /** @returns {Pick<Question, "by" | "groups">} */
  rows() {
    const by = [];
    const groups = [];
    do {
      const name = this.name();
      by.push(name);
      if (this.take("into")) {
        const own = [];
        do own.push(this.condition()); while (this.take("or"));
        groups.push({ name, groups: own });
      }
    } while (this.take("by"));
    return { by, groups };
  }

  measure() {
    const ahead = this.#tokens.slice(0, 3).filter((token) => token.plain).map((token) => token.text);
    const length = ahead[0] === "quantile" && ahead[1] !== "of" ? 2 : 1;
    if (ahead[length] !== "of") return null;
    this.#at = length + 1;
    return ahead.slice(0, length).join(" ");
  }

  /** @returns {Condition} */
  condition() {
    const name = this.name();
    if (this.take("from")) {
      const first = this.name();
      if (!this.take("to")) throw unreadable();
      return { name, labels: [first, this.name()], span: true };
    }
    if (!this.take("=")) throw unreadable();
    return { name, labels: this.names(","), span: false };
  }

  end() {
    if (this.#at < this.#tokens.length) throw unreadable();
  }
}

/**
 * @param {string} text
 * @returns {{text: string, plain: boolean}[]}
 */
function tokens(text) {
  const found = [];
  let at = afterBlanks(text, 0);
  while (at < text.length) {
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(text);
    if (match === null) throw unreadable();
    at = afterBlanks(text, TOKEN.lastIndex);
    const [, double, single, sign, word] = match;
    if (double !== undefined) found.push({ text: double.replaceAll('""', '"'), plain: false });
    else if (single !== undefined) found.push({ text: single.replaceAll("''", "'"), plain: false });
    else found.push({ text: sign ?? word, plain: true });
  }
  return found;
}

/**
 * @param {string} text
 * @param {number} at
 */
function afterBlanks(text, at) {
  BLANKS.lastIndex = at;
  BLANKS.exec(text);
  return BLANKS.lastIndex;
}

function unreadable() {
  return new Error("The question does not have the form: NAME by NAME where NAME = LEVEL in AREA minus AREA as share of NAME.");
}

/**
 * The command that answers a question.
 * @param {string} release
 * @param {string} text
 * @param {{level: string, threshold: string, file: string}} options as the address has them
 */
export function commandOf(release, text, { level, threshold, file }) {
  const options = [
    ...(level === "0.95" ? [] : ["--level", level]), ...(threshold === "" ? [] : ["--threshold", threshold]),
    ...(file === "" ? [] : ["--district", quoted(file)]),
  ];
  return ["tallyveil", "ask", quoted(release), `'${text.replaceAll("'", "'\\''")}'`, ...options].join(" ");
}

/**
 * A word for a shell.
 * @param {string} word
 */
function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
