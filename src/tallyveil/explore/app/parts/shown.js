/**
 * Make text from a release safe to show, as `tallyveil.printable` does.
 *
 * Control characters, format characters (such as those that reverse the direction of text), lone surrogates, private and
 * unassigned characters and the separators of lines are replaced by their JSON escapes. Pages put the result into
 * `textContent` only, so HTML needs no escapes.
 */

const OBEYED = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;

/**
 * The text, with each character that changes how other text is shown replaced by its escape.
 * @param {string} text
 * @returns {string}
 */
export function shown(text) {
  return text.replace(OBEYED, escaped);
}

/**
 * @param {string} character one code point
 * @returns {string}
 */
function escaped(character) {
  return Array.from({ length: character.length }, (_, place) =>
    `\\u${character.charCodeAt(place).toString(16).padStart(4, "0")}`).join("");
}
