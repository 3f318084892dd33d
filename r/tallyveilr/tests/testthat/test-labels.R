test_that("labels stand in the order of the schema, whatever the order in the query", {
  release <- example_release()
  expect_identical(release_labels(release, "total"), stats::setNames(list(), character()))
  expect_named(release_labels(release, "home*age"), c("age", "home"))
  expect_identical(release_labels(release, "detailed"), release_labels(release, "age * home"))
  expect_identical(release_labels(release, "adult"), list(age = c("16 or older")))
  expect_error(release_labels(release, "income"), "income", class = "tallyveil_no_table")
})

test_that("answers are numbered with the last attribute fastest", {
  factors <- list(a = c("x", "y"), `b "c"` = c("1", "2", "3"))
  found <- answer_labels(factors, 0:5)
  expect_identical(found$a, rep(c("x", "y"), each = 3))
  expect_identical(found[["b \"c\""]], rep(c("1", "2", "3"), 2))
  expect_identical(answer_labels(list(), 0), list())
})

test_that("noisy answers become rows", {
  factors <- list(a = c("x", "y"))
  parts <- data.frame(geocode = c("01", "02"), variance = c(2, 3))
  parts$values <- list(c(-1, 5), c(7, 8))
  rows <- answer_rows(parts, factors)
  expect_identical(rows$geocode, c("01", "01", "02", "02"))
  expect_identical(rows$a, c("x", "y", "x", "y"))
  expect_identical(rows$value, c(-1, 5, 7, 8))
  expect_identical(rows$variance, c(2, 2, 3, 3))
  parts$values <- list(5, numeric())
  parts$answers <- list(1, numeric())
  expect_identical(answer_rows(parts, factors)$a, "y")
})

test_that("arrow reads noisy answers", {
  skip_if_not_installed("arrow")
  release <- open_release(example_folder("release"))
  rows <- release_measurements(release, "Region", "detailed")
  expect_named(rows, c("geocode", "age", "home", "value", "variance"))
  expect_identical(nrow(rows), 12L)
  expect_error(release_measurements(release, "Region", "home"), "total at Region", class = "tallyveil_no_table")
  release$files <- release$files[!startsWith(release$files$path, "measurements/"), ]
  expect_error(release_measurements(release, "Region", "total"), "It keeps none", class = "tallyveil_no_table")
})

test_that("labels for people make factors in the order of the schema", {
  release <- example_release()
  expect_error(with_labels(data.frame(), release), "no labels", class = "tallyveil_no_labels")
  release$manifest$body$plan$labels <- list(
    de = list(levels = list(age = list(`16 or older` = "ab 16"), adult = list(`16 or older` = "erwachsen")))
  )
  rows <- release_table(release, "Region", "age")
  said <- with_labels(rows, release)
  expect_s3_class(said$age, "factor")
  expect_identical(nlevels(said$age), length(release_labels(release, "age")$age))
  expect_identical(as.integer(said$age), match(rows$age, release_labels(release, "age")$age))
  # A group that is called as a level is labelled as the level.
  expect_identical(as.character(with_labels(data.frame(age = "16 or older"), release, "de")$age), "ab 16")
  expect_error(with_labels(rows, release, "fr"), "de", class = "tallyveil_no_labels")
})
