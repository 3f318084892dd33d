test_that("a table has text for geocodes and labels, and doubles for numbers", {
  rows <- release_table(example_release(), "Region", "detailed")
  expect_named(rows, c("geocode", "age", "home", "count", "estimate", "standard_error", "lower", "upper"))
  expect_identical(unique(rows$geocode), c("01", "02"))
  expect_true(all(vapply(rows[-(1:3)], is.double, NA)))
  expect_true("NA" %in% rows$age)
  expect_false(anyNA(rows$home))
})

test_that("all tables agree on the number of people", {
  release <- example_release()
  for (area in release_areas(release)) {
    sums <- vapply(release_queries(release), function(query) sum(release_table(release, area, query)$count), 1)
    expect_length(unique(sums), 1)
  }
})

test_that("rows with counts of zero are there unless they are not wanted", {
  release <- example_release()
  rows <- release_table(release, "Block", "detailed")
  expect_identical(nrow(rows), 72L)
  expect_equal(sum(rows$estimate), sum(release_table(release, "Region", "total")$estimate), tolerance = 1e-9)
  listed <- release_table(release, "Block", "detailed", zeros = FALSE)
  expect_identical(listed, `row.names<-`(rows[rows$count > 0, ], NULL))
  expect_lt(nrow(listed), nrow(rows))
  expect_error(release_table(release, "Block", "detailed", zeros = NA), class = "tallyveil_bad_argument")
})

test_that("CSV files without zeros are not taken for whole tables", {
  folder <- copied("csv")
  list_path <- file.path(folder, "publication.json")
  listed <- jsonlite::read_json(list_path)
  listed$zeros <- "left out"
  jsonlite::write_json(listed, list_path, auto_unbox = TRUE, digits = NA)
  release <- open_release(example_folder("release"), csv = folder)
  expect_error(release_table(release, "Town", "total"), "--no-zeros", class = "tallyveil_csv_without_zeros")
  expect_s3_class(release_table(release, "Town", "total", zeros = FALSE), "data.frame")
})

test_that("rows that a file leaves out are put back in their places", {
  release <- example_release()
  whole <- release_table(release, "Block", "detailed")[c("geocode", "age", "home", "count")]
  factors <- query_factors(release$manifest$body$plan$schema, "detailed")
  found <- filled(whole[whole$count > 0, ], unique(whole$geocode), factors)
  row.names(found) <- NULL
  expect_identical(found, whole)
  total <- data.frame(geocode = "b", count = 3)
  expect_identical(filled(total, c("a", "b"), list())$count, c(0, 3))
})

test_that("what there is no table of is said", {
  release <- example_release()
  expect_error(release_table(release, "Tract", "total"), "Region, Town", class = "tallyveil_no_table")
  expect_error(release_table(release, "Town", "income"), class = "tallyveil_no_table")
  expect_error(release_table(release, NA_character_, "total"), class = "tallyveil_bad_argument")
  expect_error(release_table("release", "Town", "total"), class = "tallyveil_bad_argument")
  expect_error(release_intervals(release, "Town", "total"), class = "tallyveil_csv_without_intervals")
})

test_that("a query may name its factors in any order", {
  known <- c("total", NA, "home*age")
  expect_identical(as_named("age * home", known), "home*age")
  expect_identical(as_named("home*age", known), "home*age")
  expect_identical(as_named("age", known), "age")
})

test_that("a changed CSV file is refused", {
  folder <- copied("csv")
  cat("\n", file = file.path(folder, "tables", "Town", "total.csv"), append = TRUE)
  release <- open_release(example_folder("release"), csv = folder)
  expect_error(release_table(release, "Town", "total"), class = "tallyveil_release_damaged")
  expect_s3_class(release_table(release, "Region", "total"), "data.frame")
})

test_that("a table without rows is a table", {
  folder <- with_csv_text("tables/Town/total.csv", function(lines) lines[1])
  release <- open_release(example_folder("release"), csv = folder)
  expect_identical(nrow(release_table(release, "Town", "total")), 0L)
})

test_that("counts above 2^31 are exact, and those that no double holds are refused", {
  counted <- function(count) {
    folder <- with_csv_text("tables/Town/total.csv", function(lines) {
      c(lines[1], sub("^((?:[^,]*,){5})[0-9]+", paste0("\\1", count), lines[2], perl = TRUE))
    })
    release_table(open_release(example_folder("release"), csv = folder), "Town", "total")$count
  }
  expect_identical(counted("2147483648"), 2147483648)
  expect_identical(counted("9007199254740991"), 2^53 - 1)
  expect_error(counted("9007199254740993"), class = "tallyveil_count_too_large")
})

test_that("fields of CSV are read as they were written", {
  path <- tempfile()
  lines <- c(
    "geolevel,query,geocode,\"a, \"\"b\"\"\",c d,count",
    "T,q,\"\",\"say \"\"no\"\", #1\",NA,1",
    "T,q,007,,' x,12"
  )
  writeLines(lines, path)
  rows <- read_csv_file(path)
  expect_named(rows, c("geolevel", "query", "geocode", "a, \"b\"", "c d", "count"))
  expect_identical(rows$geocode, c("", "007"))
  expect_identical(rows[["a, \"b\""]], c("say \"no\", #1", NA))
  expect_identical(rows[["c d"]], c("NA", "' x"))
  expect_identical(rows$count, c(1, 12))
})

test_that("arrow reads what the CSV files hold", {
  skip_if_not_installed("arrow")
  parquet <- open_release(example_folder("release"))
  csv <- example_release()
  for (area in release_areas(csv)) {
    for (query in release_queries(csv)) {
      expect_equal(release_table(parquet, area, query), release_table(csv, area, query))
      expect_identical(release_intervals(parquet, area, query), release_table(parquet, area, query))
    }
  }
  expect_error(release_intervals(parquet, "Region", "home"), class = "tallyveil_intervals_missing")
  expect_identical(release_names(parquet), release_names(csv))
})
