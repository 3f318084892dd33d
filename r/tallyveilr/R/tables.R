release_table <- function(release, area, query, zeros = TRUE) {
  require_release(release)
  if (!isTRUE(zeros) && !isFALSE(zeros)) {
    refuse("bad-argument", "`zeros` is ", deparse1(zeros), "; wanted TRUE or FALSE.")
  }
  files <- files_of(release, "tables/", area, query)
  if (nrow(files) == 0) {
    refuse(
      "no-table", release$path, " has no table of ", deparse1(query), " for ", deparse1(area), ". It has tables of ",
      some_of(release_queries(release), 20), ", for ", some_of(release_areas(release), 20), "."
    )
  }
  rows <- read_parts(release, files)
  rows <- if (zeros) whole_rows(release, rows, area, query) else rows[rows$count > 0, ]
  row.names(rows) <- NULL
  named_answers(release, rows, query)
}

# All rows of a table. Files of Parquet leave out counts of zero where a table of many answers has no intervals; those of
# earlier versions also where it has, and intervals/ then holds all rows.
whole_rows <- function(release, rows, area, query) {
  if (!is.null(release$csv)) {
    if (!identical(release$csv$zeros, "included")) {
      refuse(
        "csv-without-zeros", "The CSV files in ", release$csv$path, " were written without rows for counts of zero. Write ",
        "them anew with `tallyveil publish csv`, without --no-zeros. Or ask for the rows that are there, with zeros = FALSE."
      )
    }
    return(rows)
  }
  factors <- query_factors(release$manifest$body$plan$schema, query)
  codes <- area_codes(release, area)
  if (nrow(rows) == length(codes) * prod(lengths(factors))) {
    return(rows)
  }
  if (all(is.na(rows$estimate))) {
    return(filled(rows, codes, factors))
  }
  files <- files_of(release, "intervals/", area, query)
  if (nrow(files) == 0 || !query %in% texts(release$manifest$body$intervals$tables)) {
    refuse(
      "intervals-missing", "The table of ", deparse1(query), " for ", deparse1(area), " in ", release$path, " has ",
      "estimates, but an earlier version of Tallyveil left out its rows with a published count of 0, and intervals/ does ",
      "not hold the same estimates for all rows. Sums of the estimates that are there would be too high. Make the ",
      "intervals again with `tallyveil intervals RUN`. Or ask for the rows that are there, with zeros = FALSE."
    )
  }
  read_parts(release, files)
}

# The geocodes of a geolevel, or the names of a family's entities, in the order of tables.
area_codes <- function(release, area) {
  path <- require_unchanged(release$path, release$files[release$files$path == "geography.parquet", ])
  columns <- arrow_columns(path)
  family <- intersect(paste0(c("original.", "entity."), area), names(columns))
  if (length(family) == 0) {
    return(unique(columns[[area]]))
  }
  sort(unique(unlist(columns[[family[[1]]]])), method = "radix")
}

# Rows of a table with those for counts of zero, which have no other numbers.
filled <- function(rows, codes, factors) {
  size <- prod(lengths(factors))
  answer <- 0
  for (name in names(factors)) {
    answer <- answer * length(factors[[name]]) + match(rows[[name]], factors[[name]]) - 1
  }
  place <- (match(rows$geocode, codes) - 1) * size + answer + 1
  whole <- rows[rep(NA_integer_, length(codes) * size), ]
  whole$geocode <- rep(codes, each = size)
  labels <- answer_labels(factors, rep(seq_len(size) - 1, times = length(codes)))
  whole[names(labels)] <- labels
  whole$count <- 0
  whole$count[place] <- rows$count
  whole
}

release_intervals <- function(release, area, query) {
  require_release(release)
  if (!is.null(release$csv)) {
    refuse(
      "csv-without-intervals", "The folder of CSV files holds tables alone, whose intervals release_table() has. Open the ",
      "release without `csv` for those of other queries."
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
