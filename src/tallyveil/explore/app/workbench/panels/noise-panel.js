/** Every query at every geolevel: budget, noise and margin, as `tallyveil plan` prints them. */

import { byId, element, refill } from "../../parts/elements.js";
import { count } from "../../parts/numbers.js";
import { figure, say } from "../../parts/language.js";
import { shown } from "../../parts/shown.js";
import { toNumber } from "../fractions.js";
import { margin } from "../state.js";
import { change, twoDecimals } from "../text.js";

/** @typedef {import("../state.js").Noise} Noise */
/** @typedef {import("../state.js").PlanState} PlanState */

/**
 * @param {PlanState} state
 * @param {Noise[]} noise
 * @param {Map<string, number>} before  standard deviations to compare with
 * @param {string} beforeName
 * @param {(geolevel: string, query: string) => string} placeOf
 */
export function showNoise(state, noise, before, beforeName, placeOf) {
  const place = byId("noise"), unit = state.isGaussian ? "rho" : "epsilon", { mechanism } = state.given;
  place.hidden = false;
  const open = place.querySelector("details")?.open ?? false;
  const headings = [say("geolevel"), say("query"), say("answers"), unit, say("variance"), say("st.dev."), say("margin"), say("from {name}", { name: shown(beforeName) })];
  const caption = say("Noise of one answer of every query; with a probability of 95 % or more it lies within the margin");
  const details = element("details", { open, ontoggle: () => fill() }, element("summary", {}, say("Noise of every query")));
  const fill = () => {
    if (!details.open) return;
    details.querySelector(".scroll")?.remove();
    details.append(element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
      element("table", {}, element("caption", {}, caption),
        element("thead", {}, element("tr", {}, ...headings.map((text, i) => element("th", { scope: "col", class: i > 1 ? "number" : null }, text)))),
        element("tbody", {}, ...noise.map((one) => {
          const own = Math.sqrt(one.variance), was = before.get(placeOf(one.geolevel, one.query));
          const numbers = [count(one.size), figure(toNumber(one.budget).toPrecision(4)), twoDecimals(one.variance), twoDecimals(own),
            `±${count(margin(one, mechanism))}`, was === undefined ? "–" : change(was, own) || say("same")];
          return element("tr", {}, element("td", {}, shown(one.geolevel)), element("th", { scope: "row" }, shown(one.query)),
            ...numbers.map((text) => element("td", { class: "number" }, text)));
        })))));
  };
  refill(place, element("h2", { id: "noise-title", class: "unseen" }, say("Noise of every query")), details);
  fill();
}
