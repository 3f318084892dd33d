/** Begins the workbench. */

import { byId, element, refill } from "../parts/elements.js";
import { say, speak } from "../parts/language.js";
import { numbersIn } from "../parts/numbers.js";
import { shown } from "../parts/shown.js";
import { chosenLanguage, languageSwitch } from "../parts/language-switch.js";
import { themeSwitch } from "../parts/theme.js";
import { Bench } from "./bench.js";

const FORMAT = 2;

/** A link within the page moves there and leaves the address, which holds the state. */
function stayInAddress() {
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest('a[href^="#"]') : null;
    if (!link) return;
    event.preventDefault();
    const place = byId(link.getAttribute("href")?.slice(1) ?? "");
    place.focus();
    place.scrollIntoView();
  });
}

async function begin() {
  stayInAddress();
  const tag = chosenLanguage();
  await speak(tag, tag === "en" ? null : tag);
  numbersIn(tag);
  refill(byId("theme-place"), languageSwitch(() => location.reload()), themeSwitch()); // the address keeps what is shown
  byId("skip").textContent = say("Skip to the cost");
  const response = await fetch("data/site.json");
  if (!response.ok) throw new Error(say("data/site.json cannot be read (status {status}). Make the workbench again.", { status: response.status }));
  const content = await response.json();
  if (content.format !== FORMAT) throw new Error(say("data/site.json has another format than this page reads. Make the workbench again."));
  for (const plan of [content.plan, content.other]) if (plan) Object.assign(plan, plan.words[tag]);
  const name = shown(content.plan.name), file = shown(content.file);
  document.title = `${name} – ${say("workbench")}`;
  refill(byId("title"), say("Workbench of {name}", { name }));
  refill(byId("file"), content.other
    ? say("{file}, compared with {other}. No record was opened.", { file, other: shown(content.other.name) })
    : say("{file}. No record was opened.", { file }));
  refill(byId("foot"), say("Made by {program}. Everything is computed in this page; nothing is sent anywhere.", { program: shown(content.made_by) }));
  await new Bench(content).begin();
}

begin().catch((error) => {
  byId("controls").append(element("p", { class: "error", role: "alert" }, shown(String(error.message ?? error))));
});
