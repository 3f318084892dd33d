/** What a site holds: `data/site.json`, read and typed. */

/**
 * @typedef {object} Kind a geolevel, or a family of entities
 * @property {number} number
 * @property {string} name
 * @property {"geolevel" | "family"} type
 * @property {number} n how many areas there are
 * @property {number} chunk areas of a file
 * @property {number | null} parent
 * @property {string[]} first_geocodes the first geocode of each file
 * @property {boolean} named whether areas have names
 * @property {boolean} [sorted] whether geocodes rise, so that an area can be looked up by halving
 */

/**
 * @typedef {object} Table
 * @property {number} number
 * @property {string} name
 * @property {string} title
 * @property {string[]} answers
 * @property {string[][] | null} attributes
 * @property {number[]} kinds
 */

/**
 * @typedef {object} Site
 * @property {number} format
 * @property {string} name
 * @property {string} unit
 * @property {string} made_by
 * @property {string[]} warnings
 * @property {string[]} guarantee
 * @property {Kind[]} kinds
 * @property {number} finest
 * @property {Table[]} tables
 * @property {{level: number, covers: string} | null} intervals
 * @property {string} [why] why there are no intervals
 * @property {{bounds: [number, number, number, number], tiles: TileSet[], made_from: "polygons" | "points"} | null} map
 * @property {{file?: string, why?: string} | null} district
 * @property {{name: string} | null} compared
 */

/** @typedef {{kind: number, minzoom: number, maxzoom: number}} TileSet */

const FORMAT = 1;

/**
 * Read the site's description.
 * @returns {Promise<Site>}
 */
export async function loadSite() {
  const answer = await fetch("data/site.json");
  if (!answer.ok) {
    throw new Error(`data/site.json cannot be read: the server answered ${answer.status}. Serve the folder of the site, ` +
      "for example with: python -m http.server");
  }
  /** @type {Site} */
  const site = await answer.json();
  if (site.format !== FORMAT) {
    throw new Error(`data/site.json has format ${site.format}, and this page reads format ${FORMAT}. Make the site again.`);
  }
  return site;
}

/**
 * A geolevel or family as readers see it.
 * @param {Kind} kind
 */
export function kindTitle(kind) {
  const words = kind.name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/**
 * The tables that have a kind of area.
 * @param {Site} site
 * @param {number} kind
 */
export function tablesOf(site, kind) {
  return site.tables.filter((table) => table.kinds.includes(kind));
}
