/** What a browser remembers of a reader's choices. */

/**
 * Where choices are remembered; null if the browser's settings forbid it.
 * @returns {Storage | null}
 */
export function stored() {
  try {
    return localStorage;
  } catch (error) {
    if (error instanceof DOMException) return null;
    throw error;
  }
}
