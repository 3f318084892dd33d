"""The page about a release's errors against declassified true counts, with known artefacts as text.

The page is separate from the report, and marked as not private.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tallyveil.files.evaluation import ALL_SIZES, FOLDER, WARNING, Evaluation, SizeClass
from tallyveil.report.page import (
    REPORT,
    Edition,
    SummaryPoint,
    evaluation_points,
    write_editions,
    write_page,
)
from tallyveil.report.privacy import parameter_table
from tallyveil.report.release_files import (
    Matrix,
    ReleaseFiles,
    Titles,
    expected_of,
    in_language,
    read_release_files,
)
from tallyveil.report.svg import Picture, dot_plot
from tallyveil.report.wording import grouped, name_title, percent, rounded, signed
from tallyveil.words.language import Figure, phrase

_TITLES = {
    "empty": phrase("empty"),
    "filled": phrase("empty, but published with {units}"),
    "emptied": phrase("not empty, but published as empty"),
}


@dataclass(frozen=True, slots=True)
class ArtefactLine:
    """One artefact, as text.

    Attributes:
        title: The kind of geounits.
        true: Number of these geounits in the true counts.
        published: Number of these geounits in the published counts; "" if the artefact has only one number.
        records: Number of records in them and the share of all records; "" if it is unknown.
    """

    title: str
    true: str
    published: str
    records: str


def artefact_lines(artefacts: pl.DataFrame, geolevel: str, titles: Titles) -> list[ArtefactLine]:
    """The artefacts of one geolevel. Groups with no true and no published geounits are left out."""
    lines, units = [], titles.unit.many
    for row in artefacts.filter(pl.col("geolevel") == geolevel).iter_rows(named=True):
        both = row["true_geounits"], row["published_geounits"]
        if row["artefact"] == "only":
            # A group that no geounit is all of would be a line of zeros.
            if row["group"] is not None and both == (0, 0):
                continue
            title = _of_one_group(row["factor"], row["group"], titles)
        else:
            title = titles.say(_TITLES[row["artefact"]], units=units)
        records = ""
        if row["records"] is not None:
            records = _figure(titles, grouped(row["records"]))
            records += "" if row["share"] is None else f" ({_figure(titles, percent(row['share']))})"
        # These two compare true and published in one number.
        is_single = row["artefact"] in ("filled", "emptied")
        lines.append(ArtefactLine(title, grouped(both[0]), "" if is_single else grouped(both[1]), records))
    return lines


def _of_one_group(factor: str, group: str | None, titles: Titles) -> str:
    units, attribute = titles.unit.many, titles.factor(factor)
    if group is None:
        return titles.say("all {units} in one group: {attribute}", units=units, attribute=attribute)
    label = dict(dict(titles.labels.levels).get(factor, ())).get(group, name_title(group))
    return titles.say("all {units} “{group}”: {attribute}", units=units, group=label, attribute=attribute)


def _figure(titles: Titles, number: str) -> str:
    """A number as the language of the page writes it, for texts that have more than the number."""
    return str(titles.language.figure(number))


SIZE_CLASSES = tuple(item.value for item in SizeClass)


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One row of a geolevel's table, as text. `is_part` is true for a size class, which follows its query's row."""

    title: str
    is_part: bool
    texts: tuple[str, ...]


def write_evaluation_report(run_dir: Path, evaluation: Evaluation) -> Path:
    """Write `evaluation/report.html`: errors and known artefacts of a release against its true counts.

    Args:
        run_dir: Release folder.
        evaluation: The comparison.
    Returns:
        Path of the page. It is one self-contained file, and has the same bytes every time.
    Raises:
        StoreError: a published file is missing or damaged, or the page cannot be written.
    Privacy: none. The page shows functions of the true counts and begins with a warning. It is separate from the
        release's report, so that the report can still be published.
    """
    files, path = read_release_files(run_dir), run_dir / FOLDER / REPORT
    if not files.plan.languages:
        return write_page(path, "evaluation.html.j2", _values(files, evaluation))
    editions = []
    for tag in files.plan.languages:
        called = in_language(files, tag)
        editions.append(Edition(tag, called.titles.language, _values(called, evaluation)))
    return write_editions(path, "evaluation.html.j2", editions)


def _values(files: ReleaseFiles, evaluation: Evaluation) -> dict[str, Any]:
    frame = evaluation.errors
    named = list(dict.fromkeys(frame["geolevel"]))
    # Geolevels as they come on the spine, then those of the geography as given.
    geolevels = sorted(named, key=lambda name: _place(files, name))
    queries = list(dict.fromkeys(frame["query"]))
    overall = _by_pair(frame.filter(pl.col("size_class") == ALL_SIZES), "query")
    # An original geolevel that the spine replaces was not measured. On the spine its name means other geounits.
    replaced = files.manifest.body.get("spine", {}).get("replaced", [])
    margins = {
        (item.query, item.geolevel): item.margin
        for item in expected_of(files)
        if item.geolevel not in replaced
    }
    # Sizes are explained by one query; the total if it was compared.
    sized = "total" if "total" in queries else queries[0] if queries else ""
    of_sized = _by_pair(frame.filter(pl.col("query") == sized), "size_class")
    classes = [name for name in SIZE_CLASSES if any((name, level) in of_sized for level in geolevels)]

    titles = files.titles

    def against_margin(pair: tuple[str, str]) -> str:
        text = grouped(overall[pair]["p95_absolute_error"])
        # The 95th percentile of the error beside the margin of the noise alone: post-processing makes the
        # difference.
        if pair not in margins:
            return text
        return f"{_figure(titles, text)} ({_figure(titles, signed(margins[pair]))})"

    def of_class(name: str) -> str:
        return _figure(titles, Figure(name))

    of_pair = [overall[sized, level] for level in geolevels if (sized, level) in overall]
    return {
        "name": files.title,
        "run": files.manifest.run,
        "unit": files.unit,
        "warning": WARNING,
        "points": _points(of_pair, titles, sized),
        "sized": titles.query(sized) if sized else "",
        "mean_error": _matrix(
            queries, geolevels, overall, lambda pair: _mean_error(overall[pair]), titles.query, titles
        ),
        "against_margin": _matrix(queries, geolevels, overall, against_margin, titles.query, titles),
        "mean_error_by_size": _matrix(
            classes, geolevels, of_sized, lambda pair: _mean_error(of_sized[pair]), of_class, titles
        ),
        "bias_by_size": _matrix(
            classes, geolevels, of_sized, lambda pair: _bias(of_sized[pair]), of_class, titles
        ),
        "tables": [
            (titles.geolevel(level), _rows(frame.filter(pl.col("geolevel") == level), titles))
            for level in geolevels
        ],
        "parameters": parameter_table(evaluation.parameters, "geolevel"),
        "artefacts": [
            (titles.geolevel(level), artefact_lines(evaluation.artefacts, level, titles))
            for level in reversed(geolevels)
        ],
        "query_plot": _plot("errors", queries, geolevels, overall, titles.query, titles),
        "size_plot": _plot("sizes", classes, geolevels, of_sized, of_class, titles),
        "version": ", ".join(files.manifest.tallyveil),
    }


def _place(files: ReleaseFiles, name: str) -> int:
    """Sort key of a geolevel: first the geolevels of the spine in their order, then all others."""
    return files.geolevels.index(name) if name in files.geolevels else len(files.geolevels)


Rows = dict[tuple[str, str], dict[str, Any]]


def _by_pair(frame: pl.DataFrame, column: str) -> Rows:
    """Index the rows of a table by the value of a column and the geolevel."""
    return {(row[column], row["geolevel"]): row for row in frame.iter_rows(named=True)}


def _points(rows: Sequence[dict[str, Any]], titles: Titles, query: str) -> tuple[SummaryPoint, ...]:
    """The evaluation in a few sentences.

    Args:
        rows: Errors of the query over all geounits of each geolevel, root first.
        titles: Of the release.
        query: The query.
    """
    # Most geounits first: the counts that most readers look at.
    by_number = sorted(rows, key=lambda row: -int(row["n_geounits"]))
    far = [
        titles.say(
            "{error} for one {geolevel} (at most {most} in 95 of 100 of them)",
            error=_mean_error(row),
            geolevel=titles.geolevel(row["geolevel"]),
            most=grouped(row["p95_absolute_error"]),
        )
        # The geolevel with the most and that with the fewest geounits; only one if there is one.
        for row in (by_number[:1] + by_number[1:][-1:])
    ]
    sentence = titles.say(
        "The mean error of {what} is {far}, in {units}.",
        what=titles.counts_of(query),
        far=titles.listed(far),
        units=titles.unit.many,
    )
    return evaluation_points(sentence, titles.language)


def _matrix(
    names: Sequence[str],
    geolevels: Sequence[str],
    rows: Rows,
    text: Callable[[tuple[str, str]], str],
    title: Callable[[str], str],
    titles: Titles,
) -> Matrix:
    return Matrix(
        tuple(titles.geolevel(level) for level in geolevels),
        tuple(
            (
                title(name),
                tuple(text((name, level)) if (name, level) in rows else None for level in geolevels),
            )
            for name in names
        ),
    )


def _plot(
    name: str,
    names: Sequence[str],
    geolevels: Sequence[str],
    rows: Rows,
    title: Callable[[str], str],
    titles: Titles,
) -> Picture:
    """Draw mean absolute errors. Zeros are drawn to the left of the smallest positive value."""
    values = {
        (title(row), titles.geolevel(level)): rows[row, level]["mean_absolute_error"]
        for row, level in rows
        if row in names
    }
    # Zeros go half as far left as the smallest positive value, marked by a line.
    positive = [value for value in values.values() if value > 0]
    has_zero = len(positive) < len(values)
    svg = dot_plot(
        titles.anchor(name),
        [title(row) for row in names],
        [titles.geolevel(level) for level in geolevels],
        values,
        axis=titles.say("mean absolute error, {units} (logarithmic)", units=titles.unit.many),
        description=titles.say("Mean absolute errors; the table below gives each."),
        below=min(positive, default=1.0) / 2 if has_zero else None,
        language=titles.language,
    )
    return Picture(svg, _worst(values, titles, of_sizes=name == "sizes"))


def _worst(values: dict[tuple[str, str], float], titles: Titles, *, of_sizes: bool) -> str:
    """Where the mean error is largest, in a sentence."""
    if not values:
        return titles.say("No errors are known.")
    row, level = max(values, key=lambda pair: values[pair])
    return titles.say(
        "The largest mean error is {number} {units}: geounits of {row} {units} at {geolevel}."
        if of_sizes
        else "The largest mean error is {number} {units}: “{row}” at {geolevel}.",
        number=rounded(values[row, level]),
        units=titles.unit.many,
        row=row,
        geolevel=level,
    )


def _rows(frame: pl.DataFrame, titles: Titles) -> list[ErrorRow]:
    """Rows of one geolevel's table. A size class with all geounits is left out, since it repeats the row above."""
    # A size class with all geounits repeats the row of its query.
    n_geounits = frame["n_geounits"].max()
    shown = frame.filter((pl.col("size_class") == ALL_SIZES) | (pl.col("n_geounits") < n_geounits))
    return [
        ErrorRow(
            titles.query(row["query"])
            if row["size_class"] == ALL_SIZES
            else f"{_figure(titles, Figure(row['size_class']))} {titles.unit.many}",
            row["size_class"] != ALL_SIZES,
            (
                grouped(row["n_geounits"]),
                grouped(row["n_answers"]),
                _mean_error(row),
                grouped(row["median_absolute_error"]),
                grouped(row["p95_absolute_error"]),
                _bias(row),
                "–" if row["relative_l1"] is None else percent(row["relative_l1"]),
            ),
        )
        for row in shown.iter_rows(named=True)
    ]


def _mean_error(row: dict[str, Any]) -> str:
    return rounded(row["mean_absolute_error"])


def _bias(row: dict[str, Any]) -> str:
    """The bias as text, with a sign. The minus sign is the typographic one."""
    value = row["bias"]
    # The sign is written always, because it says in which direction counts are off.
    return Figure("0" if value == 0 else ("+" if value > 0 else "−") + rounded(abs(value)))
