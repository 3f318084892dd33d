open_release <- function(path, csv = NULL) {
  one_text(path, "path")
  root <- path.expand(path)
  manifest <- read_manifest(root)
  release <- structure(
    list(
      path = root,
      manifest = manifest,
      files = listed_files(root, manifest),
      csv = if (!is.null(csv)) csv_folder(csv, root, manifest)
    ),
    class = "tallyveil_release"
  )
  for (said in texts(manifest$warnings)) warning("NOT PRIVATE: ", said, call. = FALSE)
  release
}

require_release <- function(given) {
  if (!inherits(given, "tallyveil_release")) {
    refuse("bad-argument", "`release` is no release. Open one with open_release(\"FOLDER\").")
  }
}

release_areas <- function(release) {
  require_release(release)
  areas <- unique(stats::na.omit(release$files$geolevel[startsWith(release$files$path, "tables/")]))
  known <- texts(release$manifest$body$plan$geolevels)
  c(intersect(known, areas), setdiff(areas, known))
}

release_queries <- function(release) {
  require_release(release)
  texts(release$manifest$body$plan$tables)
}

print.tallyveil_release <- function(x, ...) {
  cat("<Tallyveil release ", x$manifest$body$name, ", run ", x$manifest$run, ">\n", sep = "")
  cat(sprintf("NOT PRIVATE: %s\n", texts(x$manifest$warnings)), sep = "")
  cat("privacy: ", x$manifest$privacy$statement, "\n", sep = "")
  cat("signature: ", release_signature(x), "\n", sep = "")
  cat("areas:   ", paste(release_areas(x), collapse = ", "), "\n", sep = "")
  cat("tables:  ", paste(release_queries(x), collapse = ", "), "\n", sep = "")
  cat("read by: ", read_by(x), "\n", sep = "")
  invisible(x)
}

read_by <- function(release) {
  if (!is.null(release$csv)) {
    return(paste("R itself, from the CSV files in", release$csv$path))
  }
  if (!has_arrow()) {
    return("nothing: the package arrow is not installed")
  }
  paste("arrow", utils::packageVersion("arrow"))
}
