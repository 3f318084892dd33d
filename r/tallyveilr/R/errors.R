# Stops with a condition of its own class, so that programs can tell errors apart. Codes that docs/errors.md of Tallyveil
# explains have the same meaning here.
refuse <- function(code, ...) {
  classes <- c(paste0("tallyveil_", gsub("-", "_", code)), "tallyveil_error", "error", "condition")
  stop(structure(class = classes, list(message = paste0(...), call = NULL, code = code)))
}

# A few of many words, for messages.
some_of <- function(words, most = 5) {
  shown <- paste(utils::head(words, most), collapse = ", ")
  if (length(words) > most) paste0(shown, ", and ", length(words) - most, " more") else shown
}

# Refuses an argument that is not one text.
one_text <- function(given, name) {
  if (!is.character(given) || length(given) != 1 || is.na(given)) {
    refuse("bad-argument", "`", name, "` is ", deparse1(given), "; wanted one text.")
  }
  invisible(given)
}
