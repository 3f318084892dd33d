/** What the budget means for one person, in numbers and as a curve. */

import { byId, element, refill } from "../../parts/elements.js";
import { curvePicture } from "./plot.js";
import { percentAtMost } from "../text.js";

/** @typedef {import("../person.js").Person} Person */

const TICKS = [0, 0.2, 0.4, 0.6, 0.8, 1];
const whole = (/** @type {number} */ value) => `${Math.round(value * 100)} %`;

/**
 * @param {Person | null} person  null where only rho is known
 * @param {string} one  what one record represents
 */
export function showPerson(person, one) {
  const place = byId("person");
  place.hidden = false;
  const title = element("h2", { id: "person-title" }, `What it means for one ${one}`);
  if (!person) {
    refill(place, title, element("p", { class: "quiet" },
      "This needs the laws of all noise. They are not used here, because epsilon follows from rho alone (see above)."));
    return;
  }
  const right = (1 + person.advantage) / 2;
  refill(place, title,
    element("p", {}, "An attacker knows every other record, and that this one is A or B with equal chances. From the noisy answers alone they guess right in at most ",
      element("strong", { id: "guess" }, percentAtMost(right)), " of cases; without them, in 50 %."),
    element("div", { class: "beside" }, curvePicture(
      { title: "false alarms", ticks: TICKS, log: false, text: whole },
      { title: "power", ticks: TICKS, log: false, text: whole },
      [{ kind: "reference", points: [[0, 0], [1, 1]] },
        { kind: "now", points: person.curve.map(({ alarms, power }) => [alarms, power]) }], []),
    element("div", { class: "scroll" }, element("table", {},
      element("caption", {}, "Largest power of a rule that says B, by its rate of false alarms; upper bounds"),
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "false alarms"), element("th", { scope: "col", class: "number" }, "power at most"))),
      element("tbody", {}, ...person.table.map(({ alarms, power }) => element("tr", {},
        element("th", { scope: "row" }, `${alarms * 100} %`), element("td", { class: "number" }, percentAtMost(power)))))))));
}
