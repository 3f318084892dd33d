/** The state of a page in its address, so that a link opens what its sender saw and the back button goes back. */

/** @typedef {Record<string, string>} State */

/**
 * The state that the address has now.
 * @returns {State}
 */
export function readState() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

/**
 * Change parts of the state.
 * @param {Record<string, string | null>} changes null takes a part out
 * @param {boolean} [replace] whether the back button skips the state before; for what changes often, such as a map's place
 */
export function writeState(changes, replace = false) {
  const address = linkTo(changes);
  if (address === location.hash) return;
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  if (!replace) document.dispatchEvent(new Event("statechange"));
}

/**
 * The address of this page with another state.
 * @param {Record<string, string | null>} changes
 * @returns {string}
 */
export function linkTo(changes) {
  const parts = new URLSearchParams(location.hash.slice(1));
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) parts.delete(name);
    else parts.set(name, value);
  }
  return `#${readable(parts)}`;
}

/**
 * Call a function with the state whenever it changes: by a link, the back button, or `writeState`.
 * @param {(state: State) => void} listener
 */
export function onState(listener) {
  const call = () => listener(readState());
  addEventListener("popstate", call); // also follows a click on a link to another hash
  document.addEventListener("statechange", call);
}

/**
 * Slashes and commas stay as they are, because a hash allows them and readers read them.
 * @param {URLSearchParams} parts
 */
function readable(parts) {
  return parts.toString().replaceAll("%2F", "/").replaceAll("%2C", ",");
}
