ask <- function(release, question, districts = NULL, threshold = NULL, per = NULL, earlier = NULL, draws = NULL, level = 0.95, limit = NULL,
                command = "tallyveil") {
  require_release(release)
  one_text(question, "question")
  one_text(command, "command")
  folder <- tempfile("ask")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  out <- file.path(folder, "answer.csv")
  given <- c("ask", release$path, question, "--out", out, "--level", one_number(level, "level"))
  if (!is.null(limit)) given <- c(given, "--limit", one_number(limit, "limit"))
  if (!is.null(threshold)) given <- c(given, "--threshold", one_number(threshold, "threshold"))
  if (!is.null(districts)) given <- c(given, "--district", table_file(districts, "districts", c("geocode", "district"), folder))
  if (!is.null(per)) given <- c(given, "--per", table_file(per, "per", c("geocode", "number"), folder))
  if (!is.null(earlier)) {
    require_release(earlier)
    given <- c(given, "--earlier", earlier$path)
  }
  if (!is.null(draws)) {
    one_text(draws, "draws")
    given <- c(given, "--from-draws", path.expand(draws))
  }
  run_command(command, c(given, "--quiet"))
  rows <- utils::read.csv(out, colClasses = "character", na.strings = "", check.names = FALSE, encoding = "UTF-8")
  drawn <- c("drawn", "drawn_lower", "drawn_upper")
  numbers <- c("count", "of", "published", "estimate", "standard_error", "lower", "upper", "probability", drawn)
  # Those of a quantile are levels of an attribute, and stay text.
  of_levels <- if ("standard_error" %in% names(rows)) character() else c("published", "estimate", "lower", "upper", drawn)
  for (name in intersect(setdiff(numbers, of_levels), names(rows))) rows[[name]] <- as.numeric(rows[[name]])
  rows$usable <- rows$usable == "true"
  rows
}

district_plan <- function(release, plan, question, threshold = 0.5, tolerance = 0.05, command = "tallyveil") {
  list(
    people = ask(release, "total as deviation", districts = plan, threshold = tolerance, command = command),
    shares = ask(release, question, districts = plan, threshold = threshold, command = command)
  )
}

# A number as the command reads it.
one_number <- function(given, name) {
  if (!is.numeric(given) || length(given) != 1 || !is.finite(given)) {
    refuse("bad-argument", "`", name, "` is ", deparse1(given), "; wanted one number.")
  }
  format(given, digits = 15, scientific = FALSE)
}

# The path of a table: of a file that is named, or of a file with the columns of a data frame.
table_file <- function(given, name, columns, folder) {
  if (is.data.frame(given)) {
    lacking <- setdiff(columns, names(given))
    if (length(lacking) > 0) refuse("bad-argument", "`", name, "` has no column ", lacking[1], ".")
    if (!is.character(given$geocode)) {
      refuse("bad-argument", "The column geocode of `", name, "` is no text, so that zeros in front are lost. Read it as text.")
    }
    path <- file.path(folder, paste0(name, ".csv"))
    utils::write.csv(given[columns], path, row.names = FALSE, fileEncoding = "UTF-8", na = "")
    return(path)
  }
  one_text(given, name)
  path.expand(given)
}
