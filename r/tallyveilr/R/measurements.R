release_measurements <- function(release, geolevel, query) {
  require_release(release)
  if (!is.null(release$csv)) {
    refuse(
      "csv-without-measurements", "The folder of CSV files holds tables alone. Open the release without `csv` for its ",
      "noisy measurements."
    )
  }
  files <- files_of(release, "measurements/", geolevel, query)
  files <- files[grepl("/part-[0-9]+[.]parquet$", files$path), ]
  if (nrow(files) == 0) {
    refuse(
      "no-table", release$path, " keeps no measurements of ", deparse1(query), " at ", deparse1(geolevel), ". It keeps ",
      kept_measurements(release), "."
    )
  }
  answer_rows(read_parts(release, files), release_labels(release, query))
}

# What noisy measurements there are, for a message.
kept_measurements <- function(release) {
  files <- release$files
  kept <- unique(files[grepl("^measurements/.*/part-[0-9]+[.]parquet$", files$path), c("geolevel", "query")])
  if (nrow(kept) == 0) {
    return("none; the next release does with measurements = \"full\" under [outputs]")
  }
  some_of(paste(kept$query, "at", kept$geolevel), 20)
}

# One row for each noisy answer. `answers` has the numbers of the answers where not all were kept.
answer_rows <- function(parts, factors) {
  lengths <- lengths(parts$values)
  answers <- if (is.null(parts$answers)) sequence(lengths) - 1 else unlist(parts$answers)
  geounit <- rep(seq_along(lengths), lengths)
  value <- as.double(unlist(parts$values))
  require_exact(value, "value")
  labels <- answer_labels(factors, answers)
  list2DF(c(list(geocode = parts$geocode[geounit]), labels, list(value = value, variance = parts$variance[geounit])))
}
