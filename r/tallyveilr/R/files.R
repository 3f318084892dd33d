# The files of a release: a data frame with path, sha256, and geolevel and query where the file is of one.
#
# The manifest lists the files of the run, and datapackage.json among them. That file says what every file holds, and
# also lists those of intervals/.
listed_files <- function(root, manifest) {
  listed <- file_rows(manifest$files)
  package <- "datapackage.json"
  if (!package %in% listed$path) {
    refuse(
      "tables-format", root, " has no datapackage.json: an earlier version of Tallyveil made it, and its tables have ",
      "another form. Read its files directly, or have the same release made with tables of today's form from its ",
      "measurements: `tallyveil estimate` spends nothing."
    )
  }
  path <- require_unchanged(root, listed[listed$path == package, ])
  described <- file_rows(parsed(read_text(path), path)$resources)
  place <- match(listed$path, described$path)
  wrong <- !is.na(place) & listed$sha256 != described$sha256[place]
  if (any(wrong)) {
    refuse(
      "release-damaged", path, " and manifest.json name different SHA-256 for ", some_of(listed$path[wrong]),
      ". Restore them from a copy of the release."
    )
  }
  rbind(described, listed[is.na(place), ])
}

# Entries of a list of files. A data package writes `hash` where a manifest writes `sha256`.
file_rows <- function(files) {
  entry <- function(name) {
    vapply(files, function(file) if (is.null(file[[name]])) NA_character_ else as.character(file[[name]]), "")
  }
  digest <- entry("sha256")
  data.frame(
    path = entry("path"),
    sha256 = ifelse(is.na(digest), sub("^sha256:", "", entry("hash")), digest),
    geolevel = entry("geolevel"),
    query = entry("query")
  )
}

# The path of a listed file, which must lie below the folder.
inside <- function(root, path) {
  steps <- strsplit(path, "/", fixed = TRUE)[[1]]
  if (grepl("^/|\\\\|^[A-Za-z]:", path) || any(steps %in% c("", ".", ".."))) {
    refuse("path-outside", "A list of files names ", deparse1(path), ", which does not lie in ", root, ".")
  }
  file.path(root, path)
}

# SHA-256 of bytes or of a file, in hexadecimal.
sha256 <- function(content) paste(as.character(unclass(openssl::sha256(content))), collapse = "")

# Refuses a file that is not the one that is listed; returns its path.
require_unchanged <- function(root, file) {
  path <- inside(root, file$path)
  if (!file.exists(path)) {
    refuse("release-unreadable", path, " is missing. Restore it from a copy of the release.")
  }
  if (!identical(sha256(file(path)), file$sha256)) {
    refuse(
      "release-damaged", path, " is not the file that the release lists: its SHA-256 is another one. It was changed ",
      "after it was written. Restore it from a copy of the release."
    )
  }
  path
}

check_release <- function(release) {
  require_release(release)
  for (number in seq_len(nrow(release$files))) require_unchanged(release$path, release$files[number, ])
  folder <- release$csv
  if (!is.null(folder)) {
    for (number in seq_len(nrow(folder$files))) require_unchanged(folder$path, folder$files[number, ])
  }
  checked <- nrow(release$files) + if (is.null(folder)) 0L else nrow(folder$files)
  message(checked, " files have the SHA-256 that the release lists.")
  invisible(release)
}
