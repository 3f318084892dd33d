release_table <- function(release, area, query) {
  require_release(release)
  files <- files_of(release, "tables/", area, query)
  if (nrow(files) == 0) {
    refuse(
      "no-table", release$path, " has no table of ", deparse1(query), " for ", deparse1(area), ". It has tables of ",
      some_of(release_queries(release), 20), ", for ", some_of(release_areas(release), 20), "."
    )
  }
  named_answers(release, read_parts(release, files), query)
}

release_intervals <- function(release, area, query) {
  require_release(release)
  if (!is.null(release$csv)) {
    refuse(
      "csv-without-intervals", "The folder of CSV files holds tables alone. release_table() has the intervals of their ",
      "rows. Open the release without `csv` for those of all answers, zeros included."
    )
  }
  files <- files_of(release, "intervals/", area, query)
  if (nrow(files) == 0) {
    refuse(
      "intervals-missing", release$path, " holds no intervals of ", deparse1(query), " for ", deparse1(area), ". Make ",
      "them with `tallyveil intervals RUN`."
    )
  }
  named_answers(release, read_parts(release, files), query)
}

# The files of one query for one area, in the order of their names.
files_of <- function(release, folder, area, query) {
  one_text(area, "area")
  one_text(query, "query")
  files <- if (is.null(release$csv)) release$files else release$csv$files
  found <- files[startsWith(files$path, folder) & files$geolevel %in% area, ]
  found <- found[found$query %in% as_named(query, unique(found$query)), ]
  found[order(found$path, method = "radix"), ]
}

# The known query with the factors of a query, which may name them in another order; else the query as it is.
as_named <- function(query, known) {
  factors <- function(name) {
    paste(sort(trimws(strsplit(name, "*", fixed = TRUE)[[1]]), method = "radix"), collapse = "*")
  }
  if (query %in% known) {
    return(query)
  }
  same <- known[vapply(as.character(known), factors, "") == factors(query)]
  if (length(same) == 0) query else same[[1]]
}

# Rows without the attributes that the query sums out.
named_answers <- function(release, rows, query) {
  schema <- release$manifest$body$plan$schema
  attributes <- vapply(schema$attributes, function(attribute) attribute$name, "")
  rows[setdiff(names(rows), c("geolevel", "query", setdiff(attributes, names(query_factors(schema, query)))))]
}
