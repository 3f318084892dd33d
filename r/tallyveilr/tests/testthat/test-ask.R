test_that("arguments are refused before the command is called", {
  release <- suppressWarnings(example_release())
  expect_error(ask(release, 5), class = "tallyveil_bad_argument")
  expect_error(ask(release, "total", level = "high"), class = "tallyveil_bad_argument")
  expect_error(ask(release, "total", command = "no-such-program"), class = "tallyveil_no_command")
  numbers <- data.frame(geocode = 1:2, number = 1:2)
  expect_error(ask(release, "total", per = numbers), "no text")
  expect_error(ask(release, "total", per = numbers["number"]), "no column geocode")
  expect_error(ask("folder", "total"), class = "tallyveil_bad_argument")
})

test_that("what is verified is named by text, and the command must be there", {
  release <- suppressWarnings(example_release())
  expect_error(verify_release(5), class = "tallyveil_bad_argument")
  expect_error(verify_release(release, whole = NA), class = "tallyveil_bad_argument")
  expect_error(verify_release(release, releases = NA_character_), class = "tallyveil_bad_argument")
  expect_error(verify_release(release, command = "no-such-program"), class = "tallyveil_no_command")
})
