release_labels <- function(release, query) {
  require_release(release)
  one_text(query, "query")
  query_factors(release$manifest$body$plan$schema, query)
}

# What a query divides by: for each attribute that it names, the labels of the levels or of the groups of a recode.
# Attributes are in the order of the schema.
query_factors <- function(schema, query) {
  attributes <- vapply(schema$attributes, function(attribute) attribute$name, "")
  levels <- lapply(schema$attributes, function(attribute) texts(attribute$levels))
  recodes <- vapply(schema$recodes, function(recode) recode$name, "")
  recoded <- vapply(schema$recodes, function(recode) recode$attribute, "")
  groups <- lapply(schema$recodes, function(recode) names(recode$groups))
  known <- list(name = c(attributes, recodes), attribute = c(attributes, recoded), labels = c(levels, groups))
  asked <- switch(query,
    total = character(),
    detailed = attributes,
    trimws(strsplit(query, "*", fixed = TRUE)[[1]])
  )
  place <- match(asked, known$name)
  if (anyNA(place)) {
    refuse(
      "no-table", "Query ", deparse1(query), " names ", deparse1(asked[is.na(place)][[1]]), ", which is no attribute and ",
      "no recode of the release. It has ", some_of(known$name, 20), "."
    )
  }
  place <- place[order(match(known$attribute[place], attributes))]
  stats::setNames(known$labels[place], known$attribute[place])
}

# The labels of numbered answers. Answers count from 0, and the last attribute changes fastest.
answer_labels <- function(factors, answers) {
  stride <- 1
  for (name in rev(names(factors))) {
    labels <- factors[[name]]
    factors[[name]] <- labels[answers %/% stride %% length(labels) + 1]
    stride <- stride * length(labels)
  }
  factors
}

with_labels <- function(rows, release, language = NULL) {
  require_release(release)
  if (!is.data.frame(rows)) refuse("bad-argument", "`rows` must be a data frame.")
  labels <- labels_in(release, language)
  schema <- release$manifest$body$plan$schema
  for (attribute in schema$attributes) {
    name <- attribute$name
    if (!is.character(rows[[name]])) next
    recodes <- Filter(function(recode) recode$attribute == name, schema$recodes)
    sources <- c(
      stats::setNames(list(texts(attribute$levels)), name),
      stats::setNames(lapply(recodes, function(recode) names(recode$groups)), vapply(recodes, function(one) one$name, ""))
    )
    # A column holds levels of the attribute, or the groups of one of its recodes.
    fits <- vapply(sources, function(levels) all(stats::na.omit(rows[[name]]) %in% levels), NA)
    if (!any(fits)) next
    source <- names(sources)[fits][[1]]
    levels <- sources[[source]]
    words <- unlist(labels$levels[[source]])
    called <- ifelse(levels %in% names(words), unname(words[levels]), levels)
    rows[[name]] <- factor(rows[[name]], levels = levels, labels = called)
  }
  rows
}

# The labels of a release in a language, or in its first.
labels_in <- function(release, language) {
  known <- names(release$manifest$body$plan$labels)
  if (is.null(language)) language <- if (length(known) > 0) known[[1]] else ""
  one_text(language, "language")
  if (!language %in% known) {
    refuse("no-labels", release$path, " has no labels in ", deparse1(language), "; it has them in ", some_of(known), ".")
  }
  release$manifest$body$plan$labels[[language]]
}
