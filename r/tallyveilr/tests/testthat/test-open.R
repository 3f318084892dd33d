test_that("a release shows what it is and what reads it", {
  shown <- capture.output(print(example_release()))
  expect_match(shown, "^<Tallyveil release example, run [0-9a-f]{16}>$", all = FALSE)
  expect_match(shown, "^privacy: epsilon <= ", all = FALSE)
  expect_match(shown, "^signature: unsigned$", all = FALSE)
  expect_match(shown, "from the CSV files in", all = FALSE)
})

test_that("what a folder that is no finished release lacks is said", {
  expect_error(open_release(tempfile()), class = "tallyveil_no_release")
  expect_error(open_release(c("a", "b")), class = "tallyveil_bad_argument")
  unfinished <- copied("release")
  dir.create(file.path(unfinished, "private"))
  expect_error(open_release(unfinished), class = "tallyveil_release_unfinished")
  changing <- copied("release")
  writeLines("x", file.path(changing, ".tallyveil-unfinished"))
  expect_error(open_release(changing), class = "tallyveil_folder_unfinished")
})

test_that("an edited manifest is refused", {
  folder <- copied("release")
  path <- file.path(folder, "manifest.json")
  lines <- readLines(path, encoding = "UTF-8")
  writeLines(sub("\"protected\": true", "\"protected\":   true", lines), path, useBytes = TRUE)
  expect_s3_class(open_release(folder), "tallyveil_release")
  writeLines(sub("\"protected\": true", "\"protected\": false", lines), path, useBytes = TRUE)
  expect_error(open_release(folder), class = "tallyveil_release_damaged")
  writeLines("[1]", path)
  expect_error(open_release(folder), class = "tallyveil_release_unreadable")
  writeLines("{\"format\": 3, \"kind\": \"topdown-measurements\"}", path)
  expect_error(open_release(folder), "tidy", class = "tallyveil_measured_only")
  writeLines("{\"format\": 3, \"kind\": \"safetab\"}", path)
  expect_error(open_release(folder), "safetab", class = "tallyveil_no_release")
  writeLines("{\"format\": 2}", path)
  expect_error(open_release(folder), class = "tallyveil_release_format")
})

test_that("seconds and memory stand after the digest in format 3 alone", {
  folder <- copied("release")
  path <- file.path(folder, "manifest.json")
  text <- read_text(path)
  after <- ', "performance": [{"stage": "checks", "seconds": 0.25}]}'
  write <- function(text) writeLines(text, path, useBytes = TRUE)
  write(sub("}\\s*$", after, text))
  expect_error(open_release(folder), class = "tallyveil_release_damaged")
  third <- sub('"format": 4', '"format": 3', text, fixed = TRUE)
  third <- sub('"digest": "[0-9a-f]{64}"(\\s*}\\s*)$', paste0('"digest": "', content_digest(third, 3), '"\\1'), third)
  write(sub("}\\s*$", after, third))
  expect_s3_class(open_release(folder), "tallyveil_release")
})

test_that("characters outside of ASCII are digested as Python escapes them", {
  expect_identical(in_ascii("a\u00fc\u7f\U0001F600\"\\n"), "a\\u00fc\\u007f\\ud83d\\ude00\"\\n")
})

test_that("tables of another release are refused", {
  folder <- copied("csv")
  path <- file.path(folder, "publication.json")
  stated <- jsonlite::read_json(path)
  stated$release$manifest_sha256 <- strrep("0", 64)
  jsonlite::write_json(stated, path, auto_unbox = TRUE)
  expect_error(open_release(example_folder("release"), csv = folder), class = "tallyveil_other_publication")
  expect_error(open_release(example_folder("release"), csv = tempdir()), class = "tallyveil_no_publication")
  folder <- copied("csv")
  path <- file.path(folder, "publication.json")
  stated <- jsonlite::read_json(path)
  stated$zeros <- NULL
  stated$form <- "px"
  jsonlite::write_json(stated, path, auto_unbox = TRUE)
  expect_error(open_release(example_folder("release"), csv = folder), class = "tallyveil_other_publication")
})

test_that("a changed or missing file is found", {
  expect_message(check_release(example_release()), "files have the SHA-256")
  folder <- copied("release")
  release <- open_release(folder, csv = example_folder("csv"))
  cat(" ", file = file.path(folder, "plan.json"), append = TRUE)
  expect_error(check_release(release), class = "tallyveil_release_damaged")
  unlink(file.path(folder, "plan.json"))
  expect_error(check_release(release), class = "tallyveil_release_unreadable")
})

test_that("a list of files names none outside of the folder", {
  for (path in c("../a", "/etc/passwd", "a/../b", "C:/x", "a\\b", "a//b", ".")) {
    expect_error(inside("root", path), class = "tallyveil_path_outside")
  }
  expect_identical(inside("root", "a/b=c%2Ad"), "root/a/b=c%2Ad")
})

test_that("without arrow the tables say what to install", {
  skip_if(has_arrow(), "arrow is installed")
  release <- open_release(example_folder("release"))
  expect_match(capture.output(print(release)), "arrow is not installed", all = FALSE)
  expect_error(release_table(release, "Region", "total"), "publish csv", class = "tallyveil_no_arrow")
  expect_error(release_measurements(release, "Region", "total"), class = "tallyveil_no_arrow")
  expect_error(release_measurements(example_release(), "Region", "total"), class = "tallyveil_csv_without_measurements")
})
