/**
 * Say sentences in the language of the reader. They stand in the modules in English, where they are said; the files
 * `app/words/*.json` have for each the same in another language. Values stand in a sentence as {name}.
 */

/** @type {Record<string, string>} */
let sentences = {};
/** @type {Intl.PluralRules | null} */
let plural = null;
/** @type {Record<string, string>} what the language writes for the signs of an English number */
let signs = { ",": ",", ".": "." };

/**
 * Speak a language from now on. Without this call a page speaks English.
 * @param {string} tag the language of the page, such as "de-AT"
 * @param {string | null} words the language whose file has its sentences; null for English
 */
export async function speak(tag, words) {
  sentences = words === null ? {} : await sentencesOf(words);
  plural = new Intl.PluralRules(tag);
  const parts = new Intl.NumberFormat(words ?? "en").formatToParts(-12345.6);
  const sign = (/** @type {string} */ type) => parts.find((part) => part.type === type)?.value ?? "";
  signs = { ",": sign("group"), ".": sign("decimal") };
  document.documentElement.lang = words ?? "en";
}

/**
 * @param {string} words
 * @returns {Promise<Record<string, string>>}
 */
async function sentencesOf(words) {
  const answer = await fetch(`app/words/${words}.json`);
  if (!answer.ok) throw new Error(`app/words/${words}.json cannot be read: the server answered ${answer.status}.`);
  return answer.json();
}

/**
 * A sentence in the language that the page speaks.
 * @param {string} sentence in English
 * @param {Record<string, string | number>} [values] what stands in the place of each {name}
 */
export function say(sentence, values = {}) {
  return (sentences[sentence] ?? sentence).replace(/\{(\w+)\}/g, (place, name) => String(values[name] ?? place));
}

/**
 * A number as the language writes it.
 * @param {string} text as English writes it, such as "1,052.5"
 */
export function figure(text) {
  return text.replace(/[.,]/g, (sign) => signs[sign]);
}

/**
 * A sentence that is said elsewhere.
 * @param {string} sentence
 */
export function phrase(sentence) {
  return sentence;
}

/**
 * Whether a noun after a whole number is in the singular.
 * @param {number} n
 */
export function isOne(n) {
  return plural === null ? n === 1 : plural.select(n) === "one";
}
