/** The explorer of a release: begins the page and shows what its address asks for. */

import { byId, element, refill } from "../parts/elements.js";
import { onState } from "../parts/link-state.js";
import { shown } from "../parts/shown.js";
import { themeSwitch } from "../parts/theme.js";
import { areaTitle } from "./area.js";
import { Areas } from "./areas.js";
import { showCard } from "./card.js";
import { showInside } from "./inside.js";
import { searchBox } from "./search-box.js";
import { SearchIndex } from "./search-index.js";
import { loadSite } from "./site.js";
import { currentView, goTo } from "./view.js";

/** @typedef {import("./site.js").Site} Site */

async function begin() {
  refill(byId("theme-place"), themeSwitch());
  const site = await loadSite();
  const areas = new Areas(site);
  head(site, areas);
  let shownArea = "";
  let asked = 0;

  async function show() {
    const mine = ++asked;
    const view = await currentView(areas);
    if (mine !== asked) return;
    const key = `${view.area.kind.number}/${view.area.row}`;
    await showCard(byId("area"), areas, view, null);
    document.title = `${areaTitle(view.area)} – ${shown(site.name)}`;
    if (shownArea !== "" && shownArea !== key) {
      byId("area-title").focus();
      byId("announcer").textContent = `Now showing ${areaTitle(view.area)}.`;
    }
    shownArea = key;
    await showInside(byId("inside"), areas, view);
  }

  onState(() => void show().catch(fail));
  await show();
}

/**
 * @param {Site} site
 * @param {Areas} areas
 */
function head(site, areas) {
  byId("release").textContent = shown(site.name);
  refill(byId("warnings"), ...site.warnings.map((warning) => element("p", { class: "warning", role: "note" }, shown(warning))));
  const index = new SearchIndex(areas);
  const named = site.kinds.some((kind) => kind.named);
  refill(byId("search"), searchBox({
    id: "find", label: "Find an area", placeholder: named ? "Find a place by name or geocode" : "Find an area by geocode",
    find: (text) => index.find(text), choose: goTo,
  }));
  refill(byId("foot"),
    ...site.guarantee.map((sentence) => element("p", {}, shown(sentence))),
    element("p", {}, `Made by ${shown(site.made_by)} from published counts. This page loads nothing from other sites.`));
}

/** @param {unknown} error */
function fail(error) {
  const text = error instanceof Error ? error.message : String(error);
  refill(byId("area"), element("p", { class: "error", role: "alert" }, `The page cannot show this. ${text}`));
}

begin().catch(fail);
