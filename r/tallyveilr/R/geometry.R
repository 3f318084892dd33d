with_geometry <- function(rows, shapes, code = "geocode") {
  if (!requireNamespace("sf", quietly = TRUE)) {
    refuse("no-sf", "The package `sf` is not installed. Install it to join counts with shapes.")
  }
  require_columns(rows, "geocode")
  one_text(code, "code")
  if (!inherits(shapes, "sf") || !code %in% names(shapes)) {
    refuse("bad-argument", "`shapes` must be an sf object with the column ", deparse1(code), ", which holds geocodes.")
  }
  codes <- shapes[[code]]
  require_codes(codes, paste0("`shapes$", code, "`"))
  if (anyDuplicated(codes) > 0) {
    refuse(
      "bad-geocodes", "Several shapes have the code ", deparse1(codes[[anyDuplicated(codes)]]), ". Keep one shape for ",
      "each geounit, for example with sf::st_union()."
    )
  }
  place <- match(rows$geocode, codes)
  if (anyNA(place)) {
    missing <- unique(rows$geocode[is.na(place)])
    refuse(
      "bad-geocodes", length(missing), " geocodes of `rows` have no shape: ", some_of(missing), ". The first codes of ",
      "`shapes` are ", some_of(utils::head(codes, 3)), ". Give shapes of the same geolevel and year, or leave these rows out."
    )
  }
  if ("geometry" %in% names(rows)) {
    refuse("bad-argument", "`rows` has a column \"geometry\" already. Give it another name.")
  }
  rows$geometry <- sf::st_geometry(shapes)[place]
  sf::st_sf(rows, sf_column_name = "geometry")
}
