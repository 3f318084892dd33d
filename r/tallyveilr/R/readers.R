# Columns of published files that hold numbers. All other columns hold text, and no attribute may have such a name.
whole_columns <- c("count", "lower", "upper")
number_columns <- c(whole_columns, "estimate", "standard_error", "variance")

has_arrow <- function() requireNamespace("arrow", quietly = TRUE)

# The rows of the files that together are one table.
read_parts <- function(release, files) {
  parts <- lapply(seq_len(nrow(files)), function(number) {
    file <- files[number, ]
    if (is.null(release$csv)) {
      read_parquet_file(require_unchanged(release$path, file))
    } else {
      read_csv_file(require_unchanged(release$csv$path, file))
    }
  })
  do.call(rbind, parts)
}

read_parquet_file <- function(path) {
  if (!has_arrow()) {
    refuse(
      "no-arrow", "The package `arrow` is not installed, so ", path, " cannot be read. Install it. Or write the tables ",
      "with `tallyveil publish csv RUN --out DIR`, and open the release with open_release(\"RUN\", csv = \"DIR\")."
    )
  }
  typed(arrow_columns(path))
}

# Arrow's 64-bit integers would become integers or `integer64`, by their size. Cast to doubles, they are always the same.
arrow_columns <- function(path) {
  table <- arrow::read_parquet(path, as_data_frame = FALSE)
  columns <- lapply(seq_along(names(table)), function(number) {
    column <- table$column(number - 1L)
    wanted <- switch(column$type$name,
      int64 = arrow::float64(),
      list = arrow::list_of(arrow::float64()),
      large_list = arrow::large_list_of(arrow::float64())
    )
    as.vector(if (is.null(wanted)) column else column$cast(wanted))
  })
  stats::setNames(columns, names(table))
}

# A field without quotes and without content is missing. A label is never empty, and only the geocode of a root may be.
read_csv_file <- function(path) {
  fields <- function(what, ...) {
    scan(path, what, sep = ",", quote = "\"", na.strings = "", quiet = TRUE, encoding = "UTF-8", ...)
  }
  header <- fields("", nlines = 1)
  columns <- fields(stats::setNames(rep(list(""), length(header)), header), skip = 1)
  if (!is.null(columns$geocode)) columns$geocode[is.na(columns$geocode)] <- ""
  typed(columns)
}

# A data frame whose columns have the types that the same columns have in every release.
typed <- function(columns) {
  for (name in names(columns)) {
    column <- columns[[name]]
    columns[[name]] <- if (is.list(column)) {
      lapply(column, as.double)
    } else if (name %in% number_columns) {
      as.double(column)
    } else {
      as.character(column)
    }
    if (name %in% whole_columns) require_exact(columns[[name]], name)
  }
  list2DF(columns)
}

# Doubles hold whole numbers exactly below 2^53.
require_exact <- function(numbers, name) {
  if (any(abs(numbers) >= 2^53, na.rm = TRUE)) {
    refuse(
      "count-too-large", "Column ", deparse1(name), " holds a number of 2^53 or more, which no number of R holds ",
      "exactly. Read the file with a program that has 64-bit integers."
    )
  }
}
