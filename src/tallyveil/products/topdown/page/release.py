"""The report page of a release: its text, its figures, and how it was made, its spine included.

It is made only from published files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from tallyveil.budget.strategy import ExpectedError, Strategy
from tallyveil.estimation.problem import EstimateStatus, RoundingMethod, TileStatus
from tallyveil.files.marks import marks_of
from tallyveil.plans.record import fixed_shares
from tallyveil.products.topdown.page.short import (
    GeolevelSizes,
    attribute_names,
    geolevel_sizes,
    release_guess,
    release_points,
    release_tiles,
)
from tallyveil.products.topdown.page.uncertainty import uncertainty_of
from tallyveil.report.page import write_release_page
from tallyveil.report.privacy import ExactNumber, exact, privacy_statement
from tallyveil.report.release_files import (
    ReleaseFiles,
    Titles,
    error_lines,
    expected_of,
    margin_matrix,
    read_release_files,
    share_matrix,
)
from tallyveil.report.svg import (
    COLOURS,
    GREY,
    MUTED,
    SMALL,
    WIDTH,
    Canvas,
    Key,
    Picture,
    Scale,
    dot_plot,
    legend_of,
    text_colour,
    text_width,
)
from tallyveil.report.wording import (
    file_size,
    grouped,
    listed,
    name_title,
    percent,
    rounded,
    scientific,
)
from tallyveil.schema.schema import Unit
from tallyveil.storage.json_files import JsonObject

EXACT = 0.001
"""Standard deviation of a total below which a total is published exactly."""


@dataclass(frozen=True, slots=True)
class SpineView:
    """The spine of a release that has entities or steps.

    Attributes:
        preset: Name of the production spine whose steps were used; None if no preset was used.
        steps: Each step in words.
        bypassed: Whether geounits were bypassed, so that geounits of one geolevel can have different noise.
        levels: For each spine its title, and for each of its geolevels, as text: name, number of geounits, mean and
            largest number of children.
        distances: For each family: name, number of entities, mean (largest) distance on the geography as given, and
            the same on the spine.
        deviations: For each family or geolevel: name, with a mark if the groups were chosen for its variance; number
            of areas; mean standard deviation of totals on the geography as given, after the steps, and on the spine;
            largest standard deviation on the spine.
        warnings: Sentences about families and geolevels that the spine makes less accurate.
        replaced: Original geolevels that the spine changes or lacks, in words; None if it keeps all.
    """

    preset: str | None
    steps: tuple[str, ...]
    bypassed: bool
    levels: tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...]
    distances: tuple[tuple[str, str, str, str], ...]
    deviations: tuple[tuple[str, ...], ...]
    warnings: tuple[str, ...]
    replaced: str | None


def spine_view(files: ReleaseFiles) -> SpineView | None:
    """The manifest's record of the spine, for reading; None if the geography is used unchanged."""
    record: dict[str, Any] | None = files.manifest.body.get("spine")
    if record is None:
        return None
    steps = tuple(_step(step) for step in record["steps"])
    if "regroup" in record:
        # In the order in which the spine is made: steps, regrouping, bypassing.
        steps += (_regroup(record["regroup"]),)
    if "bypassing" in record:
        steps += (_bypassing(record["bypassing"]),)
    spines = [("geography as given", record["original"])]
    if steps:
        spines.append(("spine of the release", record["made"]))
    distances = (
        (
            name_title(name),
            grouped(item["entities"]),
            # Without steps the spine is the geography as given, and the record has one distance.
            _distance(item, "original_") if "original_mean" in item else _distance(item, ""),
            _distance(item, ""),
        )
        for name, item in record["distances"].items()
    )
    return SpineView(
        record.get("preset"),
        steps,
        "bypassing" in record,
        tuple((title, tuple(_level(item) for item in levels)) for title, levels in spines),
        tuple(distances),
        tuple(_deviations(item) for item in record.get("deviations", ())),
        tuple(name_title(warning) for warning in record.get("warnings", ())),
        listed([name_title(name) for name in record["replaced"]]) if record["replaced"] else None,
    )


def _level(item: dict[str, Any]) -> tuple[str, str, str, str]:
    children = ("", "")
    if "children_mean" in item:
        children = (rounded(item["children_mean"]), grouped(item["children_most"]))
    return (name_title(item["geolevel"]), grouped(item["geounits"]), *children)


def _distance(item: dict[str, Any], which: str) -> str:
    return f"{rounded(item[which + 'mean'])} ({grouped(item[which + 'most'])})"


def _deviations(item: dict[str, Any]) -> tuple[str, ...]:
    values = (item["given"]["mean"], item["steps"]["mean"], item["made"]["mean"], item["made"]["greatest"])
    return (
        name_title(item["name"]) + (" *" if item["aimed"] else ""),
        grouped(item["areas"]),
        *(
            # None: no measurement reaches the area. Below 0.001 it is an invariant.
            "not determined" if value is None else "exact" if value < EXACT else rounded(value)
            for value in values
        ),
    )


def _step(step: dict[str, Any]) -> str:
    level = name_title(step["geolevel"])
    if step["kind"] == "branch":
        entities = "all" if step["entities"] is None else listed(step["entities"])
        where = f"into the new geolevel {name_title(step['parts'])}" if step["parts"] else "in its place"
        return (
            f"Branch {step['name']}: every geounit from {level} down is cut by the entities of "
            f"{name_title(step['family'])} ({entities}), {where}."
        )
    families = listed([name_title(name) for name in step["families"]])
    if step["kind"] == "cut_by_entities":
        where = f"below {level}, which stays whole" if step["keep"] else f"in the place of {level}"
        return (
            f"{name_title(step['name'])}: every geounit from {level} down is cut by the entities of {families}; "
            f"the parts are a geolevel {where}."
        )
    children = name_title(step["children"])
    limit = _limit(step["limit"])
    if step["kind"] == "group_by_membership":
        return f"{level}: groups of {children} geounits that are in the same entities of {families}, {limit}."
    return f"{level}: groups of {children} geounits, merged while no distance of {families} grows, {limit}."


def _limit(limit: dict[str, Any]) -> str:
    text = f"at most int(√n + {limit['cutoff']}) each"
    return text if limit["at_most"] is None else f"{text} and never more than {limit['at_most']}"


def _regroup(record: dict[str, Any]) -> str:
    aim = listed([name_title(name) for name in record["aim"]])
    what = "the sum of mean variances" if record["measure"] == "sum" else "the greatest variance"
    return (
        f"{name_title(record['geolevel'])}: groups chosen anew so that {what} of {aim} falls, "
        f"{_limit(record['limit'])}. {_guarantee_kept_words(record)}"
    )


def _guarantee_kept_words(record: dict[str, Any]) -> str:
    """The limit on what other areas may lose through the groups; "" for older releases, which had no limit."""
    # Releases of earlier versions have no such limit.
    if "most_loss" not in record:
        return ""
    loss = percent(float(Fraction(record["most_loss"])))
    place = "the geography as given" if record["reference"] == "geography" else "the spine before this step"
    free = record["may_worsen"]
    but = f", but for {listed([name_title(name) for name in free])}" if free else ""
    return (
        f"No other family of the entity table and no geolevel of the geography{but} was to lose more than {loss} of "
        f"its mean standard deviation on {place}; the table below says what came of it."
    )


def _bypassing(record: dict[str, Any]) -> str:
    # A bypassed geounit gives its share away and is not measured.
    without = grouped(sum(level["not_measured"] for level in record["geolevels"]))
    if record["rule"] == "single_child":
        return (
            "Bypassing: a geounit with one child is the same area as the child; it is measured once, at the upper "
            f"geolevel, with the shares of both. So {without} geounits have no measurement of their own."
        )
    return (
        "Bypassing: a geounit is left out where its share is small beside its children's, which take its place and its "
        "share. If all geolevels measure the same queries with the same query shares, no query of any geounit has a "
        f"greater variance then. So {without} geounits have no measurement of their own."
    )


_NAMES_SHOWN: Final = 6
"""Invariants of a draw that are named; the others are counted. It only bounds the length of a line of the page."""


@dataclass(frozen=True, slots=True)
class DrawnCounts:
    """One query at one geolevel whose counts were drawn and then fixed.

    Attributes:
        query, geolevel: Titles for reading.
        counts: Number of counts.
        dimension: Dimension of the lattice: how many counts the invariants leave free.
        law: Distribution of the noise: its name together with the name of its parameter, and the parameter.
        symbol: Greek letter of the budget's unit.
        budget: ExactNumber cost.
        invariants: Names of the first few invariants, and the number of the others.
        statement: The guarantee in a sentence.
        sampler, reason: How the noise was drawn, and why in this way.
        spread: Standard deviation of a count's noise (the smallest to the largest, if counts differ), mean absolute
            noise, and the number of draws behind both; None if the manifest has no spread.
        path: File that holds the counts.
    """

    query: str
    geolevel: str
    counts: str
    dimension: str
    law: tuple[str, ExactNumber]
    symbol: str
    budget: ExactNumber
    invariants: tuple[tuple[str, ...], str]
    statement: str
    sampler: str
    reason: str
    spread: tuple[str, str, str] | None
    path: str


def drawn_counts(files: ReleaseFiles) -> tuple[DrawnCounts, ...]:
    """The drawn counts that the manifest lists; empty if there are none."""
    return tuple(_drawn(files, item) for item in files.manifest.body.get("drawn", []))


def _drawn(files: ReleaseFiles, item: dict[str, Any]) -> DrawnCounts:
    noise, privacy = item["noise"], item["privacy"]
    names = privacy["invariants"]
    more = len(names) - _NAMES_SHOWN
    return DrawnCounts(
        files.titles.query(item["query"]),
        name_title(item["geolevel"]),
        grouped(noise["cells"]),
        grouped(noise["dimension"]),
        _law(item["law"]),
        "ρ" if files.declaration.budget_unit == "rho" else "ε",
        exact(Fraction(item["budget"])),
        (tuple(names[:_NAMES_SHOWN]), grouped(more) if more > 0 else ""),
        privacy["statement"],
        noise["sampler"],
        noise["reason"],
        _spread(noise["spread"]),
        item["path"],
    )


def _law(law: dict[str, str]) -> tuple[str, ExactNumber]:
    if "variance" in law:
        return f"{law['kind']}, variance", exact(Fraction(law["variance"]))
    return f"{law['kind']}, {law['norm']} norm, ε by unit of distance", exact(Fraction(law["epsilon"]))


def _spread(spread: dict[str, Any] | None) -> tuple[str, str, str] | None:
    if spread is None:
        return None
    least, greatest = (rounded(spread["standard_deviation"][name]) for name in ("least", "greatest"))
    between = least if least == greatest else f"{least} to {greatest}"
    return between, rounded(spread["mean_absolute"]), grouped(spread["draws"])


_STATUS_TITLES: dict[EstimateStatus | TileStatus, str] = {
    EstimateStatus.CERTIFIED: "certified",
    EstimateStatus.CERTIFIED_BY_MORE_SWEEPS: "certified, more sweeps",
    EstimateStatus.CERTIFIED_FROM_INTERIOR_POINT: "certified, interior point",
    EstimateStatus.INTERIOR_POINT: "interior point",
    EstimateStatus.COPIED: "copied",
    EstimateStatus.ALLOCATED: "divided by a model",
    EstimateStatus.EMPTY: "empty",
    TileStatus.SETTLED: "nothing to estimate",
    TileStatus.LIFTED: "split with their finest geounits",
    TileStatus.CERTIFIED: "tables, certified",
    TileStatus.CERTIFIED_BY_RESTART: "tables, certified after a restart",
    TileStatus.CERTIFIED_BY_MORE_STEPS: "tables, certified by more steps",
    TileStatus.APPROXIMATE: "tables, approximate",
}
_ROUNDING_TITLES = {
    RoundingMethod.FIXED: "nothing to round",
    RoundingMethod.NETWORK_FLOW: "network flow",
    RoundingMethod.LINEAR_PROGRAM: "linear program",
    RoundingMethod.INTEGER_PROGRAM: "integer program",
}


@dataclass(frozen=True, slots=True)
class SolverTable:
    """How the families of each geolevel were solved.

    Attributes:
        statuses, roundings: Column titles of the outcomes that occurred.
        rows: Geolevel; families; families by status; by rounding; families widened; largest residual.
        meanings: Title of each outcome that occurred, and what to do about it.
    """

    statuses: tuple[str, ...]
    roundings: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...], str, str], ...]
    meanings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class FileLine:
    """One published file."""

    path: str
    size: str
    sha256: str


def solver_table(files: ReleaseFiles) -> SolverTable:
    """Outcomes by geolevel; those that never occurred are left out."""
    records: JsonObject = files.manifest.body["solver"]
    levels = [level for level in files.geolevels if level in records]
    # Outcomes that occurred nowhere would be columns of zeros.
    statuses = [
        item
        for item in (*EstimateStatus, *TileStatus)
        if any(records[x]["estimate"].get(item.value) for x in levels)
    ]
    roundings = [
        item for item in RoundingMethod if any(records[x]["rounding"].get(item.value) for x in levels)
    ]
    rows = []
    for level in levels:
        record = records[level]
        rows.append(
            (
                name_title(level),
                grouped(record["families"]),
                tuple(grouped(record["estimate"].get(item.value, 0)) for item in statuses),
                tuple(grouped(record["rounding"].get(item.value, 0)) for item in roundings),
                grouped(record["rounding_widened"]),
                scientific(record["largest_residual"]),
            )
        )
    return SolverTable(
        tuple(_STATUS_TITLES[item] for item in statuses),
        tuple(_ROUNDING_TITLES[item] for item in roundings),
        tuple(rows),
        (
            *((_STATUS_TITLES[item], item.remedy) for item in statuses),
            *((_ROUNDING_TITLES[item], item.remedy) for item in roundings),
        ),
    )


def file_lines(files: ReleaseFiles) -> tuple[FileLine, ...]:
    """Published files in the manifest's order."""
    return tuple(FileLine(file.path, file_size(file.bytes), file.sha256) for file in files.manifest.files)


SHOWN_QUERIES = 7
"""Most queries with a colour of their own: the house style has no more. Beyond it, small shares are grey."""
_LABEL_FROM = 0.06  # shares narrower than this have no room for their percentage
_BAR, _BETWEEN = 20.0, 13.0  # heights of a bar and of the space between bars
_SHARES = 158.0  # width of the bars of geolevels with their percentages


def budget_plot(strategy: Strategy, queries: Sequence[str], titles: Titles) -> Picture:
    """Draw how the budget is divided among geolevels, and within each geolevel among queries."""
    levels = {level: name_title(level) for level in strategy.geolevels}
    shown, others = _shown_queries(strategy, queries)
    colours = {query: COLOURS[number] for number, query in enumerate(shown)}
    keys = [Key(titles.query(query), colour) for query, colour in colours.items()]
    if others:
        keys.append(Key(_others(others), GREY))
    left = 12 + max(map(text_width, levels.values()))
    right = left + _SHARES + 20
    legend = legend_of(keys, WIDTH - left)
    top = legend.height + 34
    canvas = Canvas(top + (_BAR + _BETWEEN) * len(levels) + 18)
    legend.draw(canvas, (left + 3, 2))
    canvas.text((left, top - 12), "share of the budget", bold=True)
    canvas.text((right, top - 12), "how each geolevel divides its share over queries", bold=True)
    geolevel_shares = {level: float(share) for level, share in strategy.geolevel_shares}
    # Room for the percentage beside the longest bar.
    length = Scale(0, max(geolevel_shares.values()), 0, _SHARES - 42)
    # The root stands on top, as in all tables of the page.
    for row, (level, title) in enumerate(levels.items()):
        y = top + (_BAR + _BETWEEN) * row
        end = left + length(geolevel_shares[level])
        canvas.text((left - 8, y + _BAR / 2), title, anchor="end")
        canvas.bar((left, y), end - left, _BAR, MUTED)
        canvas.text((end + 5, y + _BAR / 2), percent(geolevel_shares[level]))
        _stack(canvas, y, dict(strategy.shares_of(level)), colours, Scale(0, 1, right, WIDTH - 18))
    axis = Scale(0, 1, right, WIDTH - 18)
    base = top + (_BAR + _BETWEEN) * len(levels) - 6
    canvas.axis(axis, base, [(part / 4, f"{25 * part} %") for part in range(5)])
    description = "Bars: " + "; ".join(
        f"{name_title(level)} {percent(float(share))} of the budget"
        for level, share in strategy.geolevel_shares
    )
    svg = canvas.svg(
        "budget", "Division of the budget", f"{description}. The table below gives the share of every query."
    )
    return Picture(svg, _budget_words(strategy, titles))


def _budget_words(strategy: Strategy, titles: Titles) -> str:
    """Which geolevel has the largest share, and to which of its queries most of it goes."""
    level, share = max(strategy.geolevel_shares, key=lambda item: item[1])
    query, part = max(strategy.shares_of(level), key=lambda item: item[1])
    return (
        f"The largest part of the budget, {percent(float(share))}, goes to {name_title(level)}, and the "
        f"largest part of that, {percent(float(part))}, to “{titles.query(query)}”."
    )


def margin_plot(
    expected: Sequence[ExpectedError], geolevels: Sequence[str], queries: Sequence[str], titles: Titles
) -> Picture:
    """Draw the 95 % margin of every measurement."""
    values = {(titles.query(item.query), item.geolevel): float(item.margin) for item in expected}
    least, most = min(expected, key=lambda item: item.margin), max(expected, key=lambda item: item.margin)
    ends = [
        f"“{titles.query(item.query)}” at {name_title(item.geolevel)}, with a margin of ± {grouped(item.margin)}"
        for item in (least, most)
    ]
    many = titles.unit.many
    svg = dot_plot(
        "margins",
        [titles.query(query) for query in queries],
        geolevels,
        values,
        axis=f"95 % margin of one measured count, {many} (logarithmic)",
        description=f"Margins by query and geolevel, from {grouped(least.margin)} to {grouped(most.margin)} {many}; "
        "the table below gives each.",
        # A logarithmic axis cannot show 0: an exact measurement is drawn below 1, the least other margin.
        below=0.4 if least.margin == 0 else None,
    )
    return Picture(svg, f"The most exact measurement is {ends[0]}; the least exact one is {ends[1]} {many}.")


_SIZES_ROW, _SIZES_BARS = 59.0, 43.0  # height of a row of bars, and of the bars in it
_SIZES_LEFT = 187.0


def sizes_plot(sizes: Sequence[GeolevelSizes], unit: Unit) -> Picture:
    """Draw histograms of the published sizes of geounits: one row of bars for each geolevel, with the same classes."""
    edges = _edges(max(item.largest for item in sizes))
    canvas = Canvas(_SIZES_ROW * len(sizes) + 50)
    places = Scale(-0.6, len(edges) - 0.4, _SIZES_LEFT, WIDTH - 18)
    for number, item in enumerate(sizes):
        base = 10 + _SIZES_ROW * (number + 1)
        _size_bars(canvas, item, edges, places, base)
        canvas.text((_SIZES_LEFT - 12, base - 31), name_title(item.geolevel), anchor="end")
        canvas.text((_SIZES_LEFT - 12, base - 15), _size_words(item), MUTED, size=SMALL, anchor="end")
        # Labels only at 0, 1, 10, 100, ...: the classes between them follow as 2 and 5 times.
        decades = [place for place, edge in enumerate(edges) if edge == 0 or str(edge).strip("0") == "1"]
        last = number == len(sizes) - 1
        canvas.axis(
            places,
            base,
            [(place, grouped(edges[place])) for place in decades] if last else (),
            title=f"{unit.many} published in the geounit (classes 1, 2–4, 5–9, 10–19, …)" if last else "",
        )
    description = "; ".join(
        f"{name_title(item.geolevel)}: {_geounits(item.geounits)}, median {grouped(item.median)}, "
        f"largest {grouped(item.largest)} {unit.many}"
        for item in sizes
    )
    svg = canvas.svg("sizes", "Sizes of geounits", f"Sizes of geounits. {description}.")
    return Picture(svg, _sizes_words(sizes[-1], unit))


def _sizes_words(finest: GeolevelSizes, unit: Unit) -> str:
    """The median size of the finest geounits, and how many of them are empty."""
    empty = f"{grouped(finest.empty)} {'is' if finest.empty == 1 else 'are'}" if finest.empty else "none is"
    return (
        f"At {name_title(finest.geolevel)}, half of the {grouped(finest.geounits)} areas have "
        f"{unit.counted(finest.median)} or fewer; {empty} empty."
    )


def _shown_queries(strategy: Strategy, queries: Sequence[str]) -> tuple[list[str], list[str]]:
    """The queries that get a colour of their own, in order, and the others, which have the smallest shares."""
    if len(queries) <= SHOWN_QUERIES:
        return list(queries), []
    # A query counts with its largest share at any geolevel, so that no wide bar is grey.
    weight = {query: Fraction(0) for query in queries}
    for level in strategy.geolevels:
        for query, share in strategy.shares_of(level):
            weight[query] = max(weight[query], share)
    largest = sorted(queries, key=lambda query: weight[query], reverse=True)[: SHOWN_QUERIES - 1]
    return [q for q in queries if q in largest], [q for q in queries if q not in largest]


def _others(others: Sequence[str]) -> str:
    return f"{len(others)} other queries"


def _stack(
    canvas: Canvas, top: float, shares: Mapping[str, Fraction], colours: dict[str, str], scale: Scale
) -> None:
    """Draw one bar of a geolevel's query shares. Queries without a colour together form the grey end of the bar."""
    parts = [(float(shares[query]), colour) for query, colour in colours.items() if query in shares]
    # Floats may add up to a little more than 1; a bar of a negative width is not drawn.
    parts.append((1 - sum(share for share, _ in parts), GREY))
    start = 0.0
    for share, colour in parts:
        # A little less than its share, so that neighbours are told apart.
        canvas.bar((scale(start), top), scale(start + share) - scale(start) - 0.8, _BAR, colour)
        if share >= _LABEL_FROM:
            canvas.text(
                (scale(start + share / 2), top + _BAR / 2),
                f"{100 * share:.3g} %",
                text_colour(colour),
                size=SMALL,
                anchor="middle",
            )
        start += share


def _edges(largest: int) -> list[int]:
    """Lower edges of the classes of counts: 0, 1, 2, 5, 10, ... up to the largest."""
    edges = [0] + [step * 10**power for power in range(12) for step in (1, 2, 5)]
    return [edge for edge in edges if edge <= max(largest, 9)]


def _size_bars(canvas: Canvas, item: GeolevelSizes, edges: list[int], places: Scale, base: float) -> None:
    counts = np.bincount(np.searchsorted(edges, item.totals, side="right") - 1, minlength=len(edges))
    # `totals` holds only the geounits with records; the empty ones are counted apart.
    counts[0] += item.empty
    shares = (counts / max(item.geounits, 1)).tolist()
    # Room for the percentage above the highest bar.
    height = Scale(0, max(*shares, 1e-9), 0, _SIZES_BARS - 13)
    for place, share in enumerate(shares):
        left, right = places(place - 0.45), places(place + 0.45)
        colour = GREY if edges[place] == 0 else COLOURS[0]
        canvas.bar((left, base - height(share)), right - left, height(share), colour)
    for place in sorted({0, int(np.argmax(shares))}):
        if shares[place] > 0:
            canvas.text(
                (places(place), base - height(shares[place]) - 7),
                percent(shares[place]),
                MUTED,
                size=SMALL,
                anchor="middle",
            )


def _size_words(item: GeolevelSizes) -> str:
    words = [_geounits(item.geounits)]
    if item.empty:
        words.append(f"{grouped(item.empty)} empty")
    return listed(words).replace(" and ", ", ")


def _geounits(number: int) -> str:
    return f"{grouped(number)} geounit" + ("s" if number != 1 else "")


def write_report(run_dir: Path) -> Path:
    """Write `report.html`, one self-contained page about a finished release.

    The same release gives the same bytes. The page has no script and loads nothing from elsewhere.

    Args:
        run_dir: Release folder.
    Returns:
        The page.
    Raises:
        StoreError: a published file is missing or damaged, or the page cannot be written.
    Privacy: reads published files only, so the page adds nothing to what they reveal.
    """
    files = read_release_files(run_dir)
    return write_release_page(run_dir, "release.html.j2", _values(files), module=__name__)


def _values(files: ReleaseFiles) -> dict[str, Any]:
    expected = expected_of(files)
    sizes = geolevel_sizes(files)
    manifest, uncertainty, right = files.manifest, uncertainty_of(files), release_guess(files)
    return {
        "tiles": release_tiles(files, sizes, uncertainty, right),
        "points": release_points(files, sizes, expected, uncertainty, right),
        "name": manifest.body["name"],
        "run": manifest.run,
        "is_protected": files.is_protected,
        "marks": marks_of(manifest).lines(),
        "unit": files.unit,
        "attributes": listed([files.titles.factor(name) for name in attribute_names(files)]),
        "geolevels": [name_title(level) for level in files.geolevels],
        "tables": [files.titles.query(query) for query in files.plan.tables],
        "privacy": privacy_statement(files),
        "drawn": drawn_counts(files),
        "post_processing": manifest.privacy["post_processing"],
        "fixed_shares": fixed_shares(files.plan),
        "shares": share_matrix(files, expected),
        "spine": spine_view(files),
        "entities": [name_title(name) for name in files.plan.entity_families],
        "paths": manifest.privacy.get("paths"),
        "margins": margin_matrix(files, expected),
        "error_lines": error_lines(files, expected),
        "sizes": [(name_title(item.geolevel), item) for item in sizes],
        "checks": manifest.checks,
        "solver": solver_table(files),
        "tallyveil": manifest.tallyveil,
        "versions": manifest.versions,
        "inputs": manifest.body["inputs"],
        "imported": manifest.body.get("imported"),
        "plan_digest": manifest.plan_digest,
        "files": file_lines(files),
        "budget_plot": budget_plot(files.strategy, files.queries, files.titles),
        "margin_plot": margin_plot(expected, files.geolevels, files.queries, files.titles),
        "sizes_plot": sizes_plot(sizes, files.unit),
        "uncertainty": uncertainty,
        "measurements": files.plan.measurements,
        "microdata": files.plan.microdata,
    }
