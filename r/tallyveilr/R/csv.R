# The folder of `tallyveil publish csv`, which must be of the release.
csv_folder <- function(csv, root, manifest) {
  one_text(csv, "csv")
  folder <- path.expand(csv)
  refuse_unfinished(folder)
  path <- file.path(folder, "publication.json")
  if (!file.exists(path)) {
    refuse(
      "no-publication", folder, " has no publication.json, so `tallyveil publish csv` did not write it. Write the tables with ",
      "`tallyveil publish csv RUN --out DIR`, and give DIR as `csv`."
    )
  }
  stated <- parsed(read_text(path), path)
  digest <- sha256(file(file.path(root, "manifest.json")))
  if (!identical(stated$release$run, manifest$run) || !identical(stated$release$manifest_sha256, digest)) {
    refuse(
      "other-publication", folder, " holds tables of another release than ", root, ", or of this release before intervals were ",
      "made. Write them anew with `tallyveil publish csv`."
    )
  }
  # Other publications have no such entry, and their tables are in other forms.
  if (is.null(stated$zeros)) {
    refuse(
      "other-publication", folder, " was not written by `tallyveil publish csv`. Write the tables with it, and give that folder as ",
      "`csv`."
    )
  }
  list(path = folder, files = file_rows(stated$files), zeros = stated$zeros)
}
