verify_release <- function(path, whole = FALSE, releases = character(), command = "tallyveil") {
  if (inherits(path, "tallyveil_release")) path <- path$path
  one_text(path, "path")
  one_text(command, "command")
  if (!is.logical(whole) || length(whole) != 1 || is.na(whole)) {
    refuse("bad-argument", "`whole` is ", deparse1(whole), "; wanted TRUE or FALSE.")
  }
  if (!is.character(releases) || anyNA(releases)) {
    refuse("bad-argument", "`releases` is ", deparse1(releases), "; wanted the paths of releases.")
  }
  sources <- as.character(rbind(rep("--release", length(releases)), path.expand(releases)))
  # Of a path that is no release the command says what it says of it; a release in which something is wrong has status 10.
  said <- run_command(command, c("verify", path.expand(path), if (whole) "--whole", sources, "--json"), finding = 10)
  verdict <- jsonlite::fromJSON(paste(said, collapse = "\n"), simplifyVector = FALSE)
  parts <- c(proved = "proved", `only compared` = "compared", `not looked at` = "not_looked_at", WRONG = "wrong")
  lines <- lapply(verdict[parts], texts)
  structure(
    list(
      holds = verdict$holds,
      subject = verdict$subject,
      guarantee = verdict$guarantee,
      signature = verdict$signature,
      statements = data.frame(
        verdict = rep(names(parts), lengths(lines)),
        statement = as.character(unlist(lines, use.names = FALSE))
      )
    ),
    class = "tallyveil_verdict"
  )
}

print.tallyveil_verdict <- function(x, ...) {
  cat(x$subject, "\n", sep = "")
  if (!is.null(x$guarantee)) cat("guarantee: ", x$guarantee, "\n", sep = "")
  if (!is.null(x$signature)) cat("signature: ", x$signature, "\n", sep = "")
  cat(paste0(x$statements$verdict, ": ", x$statements$statement, "\n"), sep = "")
  cat(if (x$holds) "Nothing is wrong.\n" else "SOMETHING IS WRONG.\n")
  invisible(x)
}
