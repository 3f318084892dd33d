# The content of manifest.json, after its digest was computed again.
read_manifest <- function(root) {
  path <- file.path(root, "manifest.json")
  if (file.exists(file.path(root, "private")) || (!file.exists(path) && file.exists(file.path(root, "ledger.jsonl")))) {
    refuse(
      "release-unfinished", "The run in ", root, " is not finished. Wait for it, or run the command that began it ",
      "once more. It finishes the release."
    )
  }
  if (!file.exists(path)) {
    refuse(
      "no-release", root, " has no manifest.json, so it holds no release. Give the folder that `tallyveil run` or ",
      "`tallyveil estimate` wrote."
    )
  }
  refuse_unfinished(root)
  text <- read_text(path)
  manifest <- parsed(text, path)
  refuse_other_manifests(manifest, root)
  if (!identical(manifest$digest, content_digest(text, manifest$format))) {
    refuse(
      "release-damaged", path, " is damaged: its digest is not that of its content. Restore it from a copy of the ",
      "release."
    )
  }
  manifest
}

# A folder that a command is changing, or where it was interrupted, has a file that names the command.
refuse_unfinished <- function(folder) {
  if (isTRUE(file.size(file.path(folder, ".tallyveil-unfinished")) > 0)) {
    refuse(
      "folder-unfinished", "The files in ", folder, " are not complete: a command of Tallyveil is at work there, or ",
      "was interrupted. Wait for it, or run it again."
    )
  }
}

refuse_other_manifests <- function(manifest, root) {
  if (!identical(manifest$format, 3L) && !identical(manifest$format, 4L)) {
    refuse(
      "release-format", root, " has a manifest of format ", deparse1(manifest$format), "; this package reads formats 3 and 4. ",
      "Open it from Python with `tallyveil.open`, which reads older formats."
    )
  }
  if (identical(manifest$kind, "topdown-measurements")) {
    refuse(
      "measured-only", root, " holds measurements without a release. Have a release made of them with `tallyveil ",
      "estimate`, or write them as rows with `tallyveil measurements export --layout tidy`, which `arrow` reads."
    )
  }
  if (!identical(manifest$kind, "topdown")) {
    refuse(
      "no-release", root, " holds a folder of kind ", deparse1(manifest$kind), "; this package reads releases of ",
      "`tallyveil run` and `tallyveil estimate` (kind \"topdown\")."
    )
  }
}

# SHA-256 of the entries before the entry `digest`, as compact JSON in ASCII. White space outside of texts is taken out;
# other characters stay as they are, so that no number is written anew.
content_digest <- function(text, format) {
  compact <- gsub('("[^"\\\\]*+(?:\\\\.[^"\\\\]*+)*+")|\\s++', "\\1", text, perl = TRUE)
  # Format 3 has seconds and memory after the digest.
  after <- if (format == 3) '(,"performance":.*)?' else ""
  content <- sub(paste0(',"digest":"[0-9a-f]{64}"', after, "}$"), "}", compact, perl = TRUE)
  sha256(charToRaw(in_ascii(content)))
}

# JSON with every character outside of ASCII written as its number in UTF-16.
in_ascii <- function(text) {
  codes <- utf8ToInt(text)
  if (all(codes < 127)) {
    return(text)
  }
  high <- codes > 0xFFFF
  escaped <- sprintf("\\u%04x", codes)
  beyond <- codes[high] - 0x10000
  escaped[high] <- sprintf("\\u%04x\\u%04x", 0xD800 + beyond %/% 0x400, 0xDC00 + beyond %% 0x400)
  plain <- codes < 127
  escaped[plain] <- intToUtf8(codes[plain], multiple = TRUE)
  paste(escaped, collapse = "")
}

read_text <- function(path) {
  bytes <- readBin(path, "raw", file.size(path))
  text <- if (any(bytes == 0)) "" else rawToChar(bytes)
  Encoding(text) <- "UTF-8"
  if (!validUTF8(text)) refuse("release-unreadable", path, " is not UTF-8. Restore it from a copy of the release.")
  text
}

parsed <- function(text, path) {
  found <- tryCatch(jsonlite::parse_json(text), error = function(error) NULL)
  if (is.null(names(found))) {
    refuse("release-unreadable", path, " holds no JSON object. Restore it from a copy of the release.")
  }
  found
}

texts <- function(values) vapply(values, as.character, character(1))
