/** Begins the workbench. */

import { byId, element, refill } from "../parts/elements.js";
import { shown } from "../parts/shown.js";
import { themeSwitch } from "../parts/theme.js";
import { Bench } from "./bench.js";

const FORMAT = 1;

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
  refill(byId("theme-place"), themeSwitch());
  const response = await fetch("data/site.json");
  if (!response.ok) throw new Error(`data/site.json cannot be read (status ${response.status}). Make the workbench again.`);
  const content = await response.json();
  if (content.format !== FORMAT) throw new Error("data/site.json has another format than this page reads. Make the workbench again.");
  document.title = `${shown(content.plan.name)} – workbench`;
  refill(byId("title"), `Workbench of ${shown(content.plan.name)}`);
  const compared = content.other ? `, compared with ${shown(content.other.name)}` : "";
  refill(byId("file"), `${shown(content.file)}${compared}. No record was opened.`);
  refill(byId("foot"), `Made by ${shown(content.made_by)}. Everything is computed in this page; nothing is sent anywhere.`);
  await new Bench(content).begin();
}

begin().catch((error) => {
  byId("controls").append(element("p", { class: "error", role: "alert" }, shown(String(error.message ?? error))));
});
