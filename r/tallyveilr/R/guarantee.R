release_guarantee <- function(release) {
  require_release(release)
  manifest <- release$manifest
  stated <- manifest$privacy
  structure(
    list(
      statement = stated$statement,
      neighbours = stated$neighbours_in_words,
      unit = stated$budget_unit,
      spent = stated$spent,
      declared = stated$declared,
      epsilon = stated$epsilon,
      delta = stated$delta,
      invariants = texts(stated$invariants),
      protected = manifest$protected,
      warnings = texts(manifest$warnings)
    ),
    class = "tallyveil_guarantee"
  )
}

print.tallyveil_guarantee <- function(x, ...) {
  cat(sprintf("NOT PRIVATE: %s\n", x$warnings), sep = "")
  cat(x$statement, "\n", sep = "")
  cat("neighbours: ", x$neighbours, "\n", sep = "")
  cat("spent: ", x$unit, " = ", x$spent, " of ", x$declared, "\n", sep = "")
  cat(sprintf("published exactly: %s\n", x$invariants), sep = "")
  cat("(as the manifest states it; verify_release() derives it from ledger and plan)\n")
  invisible(x)
}
