/** The explorer of a release: begins the page and shows what its address asks for. */

import { CSV_NOTE } from "../parts/csv.js";
import { byId, element, refill } from "../parts/elements.js";
import { say } from "../parts/language.js";
import { onState } from "../parts/link-state.js";
import { shown } from "../parts/shown.js";
import { themeSwitch } from "../parts/theme.js";
import { areaTitle } from "./area.js";
import { Areas } from "./areas.js";
import { showCard } from "./card.js";
import { Chosen } from "./chosen.js";
import { showInside } from "./inside.js";
import { searchBox } from "./search-box.js";
import { SearchIndex } from "./search-index.js";
import { languageSwitch, loadSite, madeBy, pageLinks } from "./site.js";
import { currentView, goTo } from "./view.js";

/** @typedef {import("./site.js").Site} Site */
/** @typedef {import("./view.js").View} View */

/** The parts of the page below the first card. They are loaded when it is shown. */
class Later {
  /** @type {Promise<import("./map-panel.js").MapPanel | null> | null} */
  #map = null;
  /** @type {import("./district.js").District | null} */
  #district = null;
  /** @type {import("./margins.js").Margins | null} */
  #margins = null;

  /**
   * @param {Areas} areas
   * @param {SearchIndex} index
   * @param {Chosen} chosen
   */
  constructor(areas, index, chosen) {
    this.areas = areas;
    this.index = index;
    this.chosen = chosen;
  }

  /**
   * @param {View} view
   * @param {boolean} moved whether another area is shown than before
   */
  async show(view, moved) {
    const [{ Margins }, { District }, { showCompare }] =
      await Promise.all([import("./margins.js"), import("./district.js"), import("./compare.js")]);
    this.#margins ??= new Margins(this.areas);
    this.#district ??= new District(byId("district"), this.areas, this.#margins, this.chosen);
    const button = await this.#district.button(view.area);
    byId("area-actions").querySelector(".own")?.remove();
    button.className = "own";
    byId("area-actions").append(button);
    await Promise.all([
      this.#showMap(view, moved),
      showInside(byId("inside"), this.areas, view),
      this.#district.show(view),
      showCompare(byId("compare"), this.areas, view, this.#margins, (text) => this.index.find(text)),
    ]);
  }

  /**
   * @param {View} view
   * @param {boolean} moved
   */
  async #showMap(view, moved) {
    if (!this.areas.site.map) return;
    if (this.#map) {
      await (await this.#map)?.show(view, moved);
      return;
    }
    this.#map = beginMap(this.areas, view, this.chosen);
    await this.#map;
  }
}

/**
 * @param {Areas} areas
 * @param {View} view
 * @param {Chosen} chosen
 */
async function beginMap(areas, view, chosen) {
  const style = element("link", { rel: "stylesheet", href: "vendor/maplibre-gl/dist/maplibre-gl.css" });
  const styled = new Promise((done) => style.addEventListener("load", done));
  document.head.append(style);
  const [{ MapPanel }] = await Promise.all([import("./map-panel.js"), styled]);
  const place = byId("map-panel");
  try {
    const panel = new MapPanel(place, areas, view, chosen);
    await panel.begin();
    return panel;
  } catch (error) {
    if (!(error instanceof Error) || !/webgl/i.test(error.message)) throw error;
    refill(place, element("p", { class: "note" }, say("This browser cannot draw the map, because it has no WebGL. The tables have the same numbers.")));
    return null;
  }
}

async function begin() {
  refill(byId("theme-place"), themeSwitch());
  const site = await loadSite();
  refill(byId("theme-place"), languageSwitch(site), themeSwitch()); // in the language of the site
  const areas = new Areas(site);
  const index = new SearchIndex(areas);
  const chosen = new Chosen(site.kinds[site.finest].n);
  const later = new Later(areas, index, chosen);
  head(site, index);
  let before = "";
  let asked = 0;

  async function show() {
    const mine = ++asked;
    document.body.dataset.settled = "false";
    chosen.read();
    const view = await currentView(areas);
    if (mine !== asked) return;
    const key = `${view.area.kind.number}/${view.area.row}`;
    const moved = before !== "" && before !== key;
    before = key;
    await showCard(byId("area"), areas, view);
    document.title = `${areaTitle(view.area)} – ${shown(site.name)}`;
    if (moved) {
      byId("area-title").focus({ preventScroll: true });
      byId("area").scrollIntoView({ block: "nearest" });
      byId("announcer").textContent = say("Now showing {area}.", { area: areaTitle(view.area) });
    }
    if (mine === asked) await later.show(view, moved);
    if (mine === asked) document.body.dataset.settled = "true"; // for programs that wait for the page
  }

  onState(() => void show().catch(fail));
  await show();
}

/**
 * @param {Site} site
 * @param {SearchIndex} index
 */
function head(site, index) {
  byId("release").textContent = shown(site.name);
  byId("skip").textContent = say("Skip to the area");
  byId("map-panel").setAttribute("aria-label", say("Map"));
  byId("inside").setAttribute("aria-label", say("Areas inside"));
  refill(byId("pages"), ...pageLinks("areas"));
  document.querySelector(".layout")?.classList.toggle("no-map", site.map === null);
  const named = site.kinds.some((kind) => kind.named);
  refill(byId("search"), searchBox({
    id: "find", label: say("Find an area"), placeholder: named ? say("Find a place by name or geocode") : say("Find an area by geocode"),
    find: (text) => index.find(text), choose: goTo,
  }));
  const warnings = [...site.warnings, ...(site.compared?.warnings ?? []).map((warning) => say("The other release, {name}: {said}", { name: String(site.compared?.name), said: warning }))];
  refill(byId("warnings"), ...warnings.map((warning) => element("p", { class: "warning", role: "note" }, shown(warning))));
  refill(byId("foot"),
    element("h2", {}, say("How these counts are protected")),
    ...site.guarantee.map((sentence) => element("p", {}, shown(sentence))),
    element("p", {}, shown(site.signature)),
    site.compared ? element("p", {}, shown(say("The other release, {name}: {said}", { name: site.compared.name, said: site.compared.signature }))) : null,
    site.map ? null : element("p", {}, shown(site.no_map ?? say("This site has no map."))),
    element("p", {}, say("CSV files: {note}", { note: say(CSV_NOTE) })),
    element("p", {}, `${madeBy(site)} ${site.map ? say("Map drawn by MapLibre.") : ""}`));
}

/** @param {unknown} error */
function fail(error) {
  const text = error instanceof Error ? error.message : String(error);
  refill(byId("area"), element("p", { class: "error", role: "alert" }, say("The page cannot show this. {reason}", { reason: text })));
}

begin().catch(fail);
