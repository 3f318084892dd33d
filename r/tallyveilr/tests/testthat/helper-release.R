# The example release of the package, and copies of it that a test may damage.
example_folder <- function(name) system.file("extdata", name, package = "tallyveilr", mustWork = TRUE)

example_release <- function() open_release(example_folder("release"), csv = example_folder("csv"))

copied <- function(name) {
  parent <- tempfile(name)
  dir.create(parent)
  file.copy(example_folder(name), parent, recursive = TRUE)
  file.path(parent, name)
}

# Writes a text into one CSV file, and its SHA-256 into the list of files.
with_csv_text <- function(path, change) {
  folder <- copied("csv")
  file <- file.path(folder, path)
  writeLines(change(readLines(file, encoding = "UTF-8")), file, useBytes = TRUE)
  list_path <- file.path(folder, "publication.json")
  listed <- jsonlite::read_json(list_path)
  place <- which(vapply(listed$files, function(one) one$path == path, NA))
  listed$files[[place]]$sha256 <- sha256(file(file))
  jsonlite::write_json(listed, list_path, auto_unbox = TRUE, digits = NA)
  folder
}
