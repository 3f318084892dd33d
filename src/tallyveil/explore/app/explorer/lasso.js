/** Draw a shape on the map, with a pointer or a finger. */

import { svgElement } from "../parts/elements.js";

/** @typedef {[number, number]} Point longitude and latitude, or x and y */

/**
 * Let the reader draw one shape.
 * @param {HTMLElement} place the box of the map
 * @param {(point: Point) => Point} unproject from the screen to longitude and latitude
 * @returns {{done: Promise<Point[] | null>, stop: () => void}} the corners; null if the reader drew none or stopped
 */
export function drawShape(place, unproject) {
  const path = svgElement("path", { d: "" });
  const cover = svgElement("svg", { class: "lasso", "aria-hidden": "true" }, path);
  /** @type {Point[]} */
  const points = [];
  place.append(cover);
  /** @type {(points: Point[] | null) => void} */
  let finish = () => undefined;
  /** @type {Promise<Point[] | null>} */
  const done = new Promise((resolve) => {
    finish = (corners) => {
      cover.remove();
      resolve(corners);
    };
  });

  /** @param {PointerEvent} event */
  function add(event) {
    const box = cover.getBoundingClientRect();
    points.push([event.clientX - box.left, event.clientY - box.top]);
    path.setAttribute("d", `M${points.map((point) => point.map((value) => value.toFixed(1)).join(" ")).join("L")}Z`);
  }

  cover.addEventListener("pointerdown", (event) => {
    cover.setPointerCapture(event.pointerId);
    add(event);
  });
  cover.addEventListener("pointermove", (event) => {
    if (points.length > 0) add(event);
  });
  cover.addEventListener("pointerup", () => finish(points.length > 2 ? points.map(unproject) : null));
  return { done, stop: () => finish(null) };
}

/**
 * Whether a point lies inside a shape: an upward line from it crosses the border an odd number of times.
 * @param {Point[]} corners
 * @param {Point} point
 */
export function inside(corners, [x, y]) {
  let odd = false;
  for (let place = 0, before = corners.length - 1; place < corners.length; before = place++) {
    const [ax, ay] = corners[place];
    const [bx, by] = corners[before];
    if (ax > x !== bx > x && y < ((by - ay) * (x - ax)) / (bx - ax) + ay) odd = !odd;
  }
  return odd;
}

/**
 * @param {Point[]} corners
 * @returns {[number, number, number, number]} west, south, east, north
 */
export function boxOf(corners) {
  const xs = corners.map(([x]) => x);
  const ys = corners.map(([, y]) => y);
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
}
