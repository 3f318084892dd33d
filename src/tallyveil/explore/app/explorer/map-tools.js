/** Choose finest geounits on the map, one by one or by drawing around them. */

import { element } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { drawShape } from "./lasso.js";
import { rowsInShape } from "./district-shape.js";
import { toggled, union } from "./rows.js";
import { kindWords } from "./site.js";

/** @typedef {import("./areas.js").Areas} Areas */
/** @typedef {import("./map-canvas.js").MapCanvas} MapCanvas */
/** @typedef {{mark: () => void, take: (kind: number, row: number) => Promise<boolean>, buttons: () => HTMLElement[]}} Tools */

/**
 * The tools of a map.
 * @param {Areas} areas
 * @param {MapCanvas} canvas
 * @param {HTMLElement} box
 * @param {import("./chosen.js").Chosen} chosen
 * @returns {Tools}
 */
export function chooseTools(areas, canvas, box, chosen) {
  const { finest, kinds } = areas.site;
  const { many } = kindWords(kinds[finest]);
  /** @type {Int32Array} */
  let marked = new Int32Array();
  let choosing = false;
  const choose = element("button", { type: "button", "aria-pressed": "false", onclick: toggle }, say("Choose areas"));
  const draw = element("button", { type: "button", "aria-pressed": "false", onclick: shape }, say("Draw a district"));
  /** @type {(() => void) | null} */
  let stop = null;

  function toggle() {
    choosing = !choosing;
    choose.setAttribute("aria-pressed", String(choosing));
  }

  async function shape() {
    if (stop) return stop();
    const drawing = drawShape(box, ([x, y]) => {
      const { lng, lat } = canvas.libre.unproject([x, y]);
      return [lng, lat];
    });
    stop = drawing.stop;
    draw.setAttribute("aria-pressed", "true");
    const corners = await drawing.done;
    stop = null;
    draw.setAttribute("aria-pressed", "false");
    if (corners) chosen.choose(union(chosen.rows, await rowsInShape(areas, corners)));
  }

  function mark() {
    if (!canvas.tiles(finest)) return;
    canvas.showChosen(finest, chosen.rows.length > 0);
    for (const row of marked) canvas.setState(finest, row, { chosen: false });
    for (const row of chosen.rows) canvas.setState(finest, row, { chosen: true });
    marked = chosen.rows;
  }

  /**
   * Choose an area's finest geounits, if the reader is choosing.
   * @param {number} kind
   * @param {number} row
   */
  async function take(kind, row) {
    if (!choosing) return false;
    chosen.choose(toggled(chosen.rows, await areas.members(await areas.area(kind, row))));
    return true;
  }

  choose.title = say("A click on an area adds its {areas} to your district, or takes them out.", { areas: many });
  draw.title = say("Draw around {areas}. Those whose middle is inside join your district.", { areas: many });
  return { mark, take, buttons: () => [choose, draw] };
}
