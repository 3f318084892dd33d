/** What the budget means for one person, in numbers and as a curve. */

import { byId, element, refill } from "../../parts/elements.js";
import { figure, say } from "../../parts/language.js";
import { curvePicture } from "./plot.js";
import { percentAtMost } from "../text.js";

/** @typedef {import("../person.js").Person} Person */

const PERCENTAGE = "{percentage}"; // as in plans/guess.py, which words the sentences
const NOTHING = 0.9995; // from this share on the bound promises next to nothing, as there

const TICKS = [0, 0.2, 0.4, 0.6, 0.8, 1];
const whole = (/** @type {number} */ value) => `${Math.round(value * 100)} %`;

/**
 * @param {Person | null} person  null where only rho is known
 * @param {import("../state.js").GivenPlan} given
 */
export function showPerson(person, given) {
  const place = byId("person");
  place.hidden = false;
  const title = element("h2", { id: "person-title" }, say("What it means for one {unit}", { unit: given.unit.one }));
  if (!person) {
    refill(place, title, element("p", { class: "quiet" },
      say("This needs the laws of all noise. They are not used here, because epsilon follows from rho alone (see above).")));
    return;
  }
  const right = (1 + person.advantage) / 2;
  const [supposed, outcome, vain] = given.guess;
  const [before, after] = (right >= NOTHING ? `${vain} ${say("The bound: {percentage}.", { percentage: PERCENTAGE })}` : outcome).split(PERCENTAGE);
  refill(place, title,
    element("p", {}, `${supposed} ${before}`, element("strong", { id: "guess" }, percentAtMost(right)), after),
    element("div", { class: "beside" }, curvePicture(
      { title: say("false alarms"), ticks: TICKS, log: false, text: whole },
      { title: say("power"), ticks: TICKS, log: false, text: whole },
      [{ kind: "reference", points: [[0, 0], [1, 1]] },
        { kind: "now", points: person.curve.map(({ alarms, power }) => [alarms, power]) }], []),
    element("div", { class: "scroll" }, element("table", {},
      element("caption", {}, say("Largest power of a rule that says B, by its rate of false alarms; upper bounds")),
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, say("false alarms")), element("th", { scope: "col", class: "number" }, say("power at most")))),
      element("tbody", {}, ...person.table.map(({ alarms, power }) => element("tr", {},
        element("th", { scope: "row" }, figure(`${alarms * 100} %`)), element("td", { class: "number" }, percentAtMost(power)))))))));
}
