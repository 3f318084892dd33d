/** The release file of the page: to read, to copy and to download. */

import { download } from "../../parts/csv.js";
import { byId, element, refill } from "../../parts/elements.js";
import { say } from "../../parts/language.js";
import { shown } from "../../parts/shown.js";
import { releaseFile } from "../release-file.js";

/**
 * @param {import("../state.js").PlanState} state
 * @param {string} file  name of the given file
 */
export function showDownload(state, file) {
  const place = byId("download");
  place.hidden = false;
  const open = place.querySelector("details")?.open ?? false, text = releaseFile(state);
  const name = state.isGiven ? file : file.replace(/(\.toml)?$/, "-workbench.toml");
  refill(place,
    element("h2", { id: "download-title", tabindex: -1 }, say("The release file")),
    element("p", {}, state.isGiven
      ? say("The page shows the file as it was given. A preset is written out as the tables that it stands for.")
      : say("The given file with the budget and the shares of this page, as exact fractions. `tallyveil plan` shows the same numbers for it. Put it beside the given file, because its paths start from there.")),
    element("button", { type: "button", class: "primary", id: "save", onclick: () => download(name, text, "application/toml") }, say("Download {file}", { file: shown(name) })),
    element("details", { open }, element("summary", {}, say("Read it here")), element("pre", { tabindex: 0 }, text)));
}
