"""The text beside tables of intervals: what the columns are, and what the intervals cover."""

from tallyveil.estimation.intervals import TreeModel
from tallyveil.files.marks import marked_text, marks_of
from tallyveil.postprocess.intervals.model import FinishedRelease


def readme_of(
    release: FinishedRelease, model: TreeModel, level: float, covers: str, *, with_bounds: bool
) -> str:
    """The text of `intervals/_README.txt`.

    Args:
        release: The release.
        model: The model of its measurements.
        level: Coverage of the intervals.
        covers: What the intervals cover, or why there are none.
        with_bounds: Whether the zeros of public bounds are used.
    """
    zeros = "Public zeros of the release's bounds were used."
    if not release.plan["bounds"]:
        zeros = "The release has no public bounds."
    elif not with_bounds:
        zeros = "Public bounds were left out, which widens the intervals."
    if release.estimating.tables_apart:
        zeros += (
            " Each query is estimated by itself,\nfrom noisy answers of the queries that _manifest.json lists. So "
            "estimates of two queries need not agree."
        )
    text = _README.format(
        name=release.name,
        attributes=", ".join(release.schema.attribute_names),
        interval=f"the {100 * level:g} % interval: whole numbers, both ends belong to it"
        if model.gaussian
        else "null; the count itself where it is exact",
        covers=covers,
        units=release.schema.unit.many,
        zeros=zeros,
    )
    return marked_text(marks_of(release.manifest).lines(), text)


_README = """Intervals of the release {name}

One row for every geounit (or entity) and answer, zeros included:
  geolevel, query the geolevel or family of entities, and the query: in the names of the folders
  geocode         the geounit, or the name of the entity
  {attributes}
                  the label of the answer's group; null where the query sums the attribute out
  count           the released count: whole, not negative, and for that slightly biased
  estimate        an unbiased estimate from the noisy measurements; may be negative or fractional
  standard_error  of the estimate, from the privacy noise alone, {units}
  lower, upper    {interval}
A number is null where the measurements do not determine the answer. Where the standard error is 0 the count is exact.

{covers}

{zeros}
For a sum of rows do not add up ends: estimates add up, ends and standard errors do not. Ask for the sum itself:
`tallyveil intervals RUN --district FILE`, or entities with --entities. Choose rows by their codes and labels, not by
their counts: rows with a count above 0 have estimates that are too high, and their intervals cover less often than
stated. Nothing here costs privacy-loss budget.
"""
