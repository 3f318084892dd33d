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
