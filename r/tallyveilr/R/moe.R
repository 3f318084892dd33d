with_moe <- function(rows, level = 0.90) {
  require_columns(rows, c("estimate", "standard_error", "lower"))
  if (!is.numeric(level) || length(level) != 1 || !isTRUE(level > 0 && level < 1)) {
    refuse("bad-argument", "`level` is ", deparse1(level), "; wanted a number between 0 and 1, such as 0.9.")
  }
  if (any(is.na(rows$lower) & rows$standard_error > 0, na.rm = TRUE)) {
    refuse(
      "not-normal", "These rows have standard errors and no intervals: their noise is Laplace noise, and a margin from ",
      "the normal law would not have the level that it names. Use `standard_error`."
    )
  }
  rows$moe <- stats::qnorm((1 + level) / 2) * rows$standard_error
  rows$cv <- ifelse(rows$estimate > 0, rows$standard_error / rows$estimate, NA_real_)
  rows
}
