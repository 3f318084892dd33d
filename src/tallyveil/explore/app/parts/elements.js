/** Make elements of a page. Text becomes text nodes: nothing is ever parsed as HTML. */

/** @typedef {Node | string | null} Child  null adds nothing */
/** @typedef {Record<string, string | number | boolean | null | ((event: any) => void)>} Attributes */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes] `onclick` and the like are listeners; false and null leave an attribute out
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  fill(made, attributes, children);
  return made;
}

/**
 * An SVG element.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function svgElement(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  fill(made, attributes, children);
  return made;
}

/**
 * Put children in the place of those that an element has.
 * @param {Element} parent
 * @param {...Child} children
 */
export function refill(parent, ...children) {
  parent.replaceChildren(...children.filter((child) => child !== null));
}

/**
 * The element of the page with this id.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`The page has no element with the id ${id}.`);
  return found;
}

/**
 * Whether the details with this id stand open on the page, so that they stay open when they are made again. It is read
 * from the page, and not noted when they are opened: a browser tells of that later, perhaps after they are made again.
 * @param {string} id
 * @returns {boolean}
 */
export function isOpen(id) {
  const before = document.getElementById(id);
  return before instanceof HTMLDetailsElement && before.open;
}

/**
 * @param {Element} made
 * @param {Attributes} attributes
 * @param {Child[]} children
 */
function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.replace(/^on/, ""), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, String(value));
  }
  refill(made, ...children);
}
