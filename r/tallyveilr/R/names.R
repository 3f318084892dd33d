release_names <- function(release) {
  require_release(release)
  file <- if (is.null(release$csv)) "names.parquet" else "names.csv"
  files <- if (is.null(release$csv)) release$files else release$csv$files
  found <- files[files$path == file, ]
  if (nrow(found) == 0) {
    refuse(
      "no-names", release$path, " has no names of geounits. The next release has them if its release file says `names` ",
      "under [geography]."
    )
  }
  read_parts(release, found)
}

with_names <- function(rows, release, area) {
  require_columns(rows, "geocode")
  one_text(area, "area")
  known <- release_names(release)
  known <- known[known$geolevel == area, ]
  rows$name <- known$name[match(rows$geocode, known$geocode)]
  rows
}

# Refuses what is no data frame with some columns, or has geocodes that are no text.
require_columns <- function(rows, columns) {
  if (!is.data.frame(rows) || !all(columns %in% names(rows))) {
    missing <- if (is.data.frame(rows)) setdiff(columns, names(rows)) else columns
    refuse("bad-argument", "`rows` must be a data frame with the column ", some_of(missing), ".")
  }
  if ("geocode" %in% columns) require_codes(rows$geocode, "`rows$geocode`")
}

require_codes <- function(codes, name) {
  if (!is.character(codes)) {
    refuse(
      "bad-geocodes", name, " is of class ", deparse1(class(codes)[[1]]), "; wanted text. Numbers have lost their ",
      "leading zeros: read the column as text. Turn a factor into text with as.character()."
    )
  }
}
