/**
 * Colours of a map, which readers with any colour vision can tell apart. What is least is nearest to the ground of the page:
 * a light page has YlGnBu of ColorBrewer, and a dark one viridis.
 */

const RISING = {
  light: ["#ffffcc", "#c7e9b4", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#0c2c84"],
  dark: ["#440154", "#443983", "#31688e", "#21918c", "#35b779", "#90d743", "#fde725"],
};
const SIDES = { light: ["#5e3c99", "#e3e6e8", "#d9730d"], dark: ["#b49be0", "#3a4550", "#f0a04b"] };

/**
 * Colours for classes in rising order.
 * @param {number} classes
 * @param {boolean} dark
 * @returns {string[]}
 */
export function sequential(classes, dark) {
  const rising = dark ? RISING.dark : RISING.light;
  if (classes === 1) return [rising[3]];
  return Array.from({ length: classes }, (_, place) => rising[Math.round((place * (rising.length - 1)) / (classes - 1))]);
}

/**
 * Colours of below, inside and above.
 * @param {boolean} dark
 */
export function sides(dark) {
  return dark ? SIDES.dark : SIDES.light;
}

/** @param {boolean} dark */
export function mapColours(dark) {
  return dark
    ? { ground: "#11171d", empty: "#2a343e", line: "#0c1116", strong: "#ffffff", chosen: "#ff8ad8" }
    : { ground: "#eef2f5", empty: "#e9ecef", line: "#9aa7b2", strong: "#111820", chosen: "#c2187a" };
}
