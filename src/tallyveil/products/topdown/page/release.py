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
from tallyveil.files.finished import MANIFEST
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
from tallyveil.report.page import REPORT, Edition, signed_values, write_editions, write_release_page
from tallyveil.report.privacy import ExactNumber, SecretCost, exact, privacy_statement, secret_costs
from tallyveil.report.release_files import (
    ReleaseFiles,
    Titles,
    error_lines,
    expected_of,
    in_language,
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
    name_title,
    percent,
    rounded,
    scientific,
    signed,
)
from tallyveil.storage.json_files import JsonObject
from tallyveil.words.language import Figure, phrase

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
        replaces_one: Whether it is one geolevel.
    """

    preset: str | None
    steps: tuple[str, ...]
    bypassed: bool
    levels: tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...]
    distances: tuple[tuple[str, str, str, str], ...]
    deviations: tuple[tuple[str, ...], ...]
    warnings: tuple[str, ...]
    replaced: str | None
    replaces_one: bool


def spine_view(files: ReleaseFiles) -> SpineView | None:
    """The manifest's record of the spine, for reading; None if the geography is used unchanged."""
    record: dict[str, Any] | None = files.manifest.body.get("spine")
    if record is None:
        return None
    titles = files.titles
    steps = tuple(_step(titles, step) for step in record["steps"])
    if "regroup" in record:
        # In the order in which the spine is made: steps, regrouping, bypassing.
        steps += (_regroup(titles, record["regroup"]),)
    if "bypassing" in record:
        steps += (_bypassing(titles, record["bypassing"]),)
    spines = [(titles.say("geography as given"), record["original"])]
    if steps:
        spines.append((titles.say("spine of the release"), record["made"]))
    distances = (
        (
            titles.geolevel(name),
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
        tuple((title, tuple(_level(titles, item) for item in levels)) for title, levels in spines),
        tuple(distances),
        tuple(_deviations(titles, item) for item in record.get("deviations", ())),
        tuple(name_title(warning) for warning in record.get("warnings", ())),
        _areas(titles, record["replaced"]) if record["replaced"] else None,
        len(record["replaced"]) == 1,
    )


def _areas(titles: Titles, names: Sequence[str]) -> str:
    return titles.listed(list(map(titles.geolevel, names)))


def _level(titles: Titles, item: dict[str, Any]) -> tuple[str, str, str, str]:
    children = ("", "")
    if "children_mean" in item:
        children = (rounded(item["children_mean"]), grouped(item["children_most"]))
    return (titles.geolevel(item["geolevel"]), grouped(item["geounits"]), *children)


def _distance(item: dict[str, Any], which: str) -> Figure:
    return Figure(f"{rounded(item[which + 'mean'])} ({grouped(item[which + 'most'])})")


def _deviations(titles: Titles, item: dict[str, Any]) -> tuple[str, ...]:
    values = (item["given"]["mean"], item["steps"]["mean"], item["made"]["mean"], item["made"]["greatest"])
    return (
        titles.geolevel(item["name"]) + (" *" if item["aimed"] else ""),
        grouped(item["areas"]),
        *(
            # None: no measurement reaches the area. Below 0.001 it is an invariant.
            titles.say("not determined")
            if value is None
            else titles.say("exact")
            if value < EXACT
            else rounded(value)
            for value in values
        ),
    )


def _step(titles: Titles, step: dict[str, Any]) -> str:
    level = titles.geolevel(step["geolevel"])
    if step["kind"] == "branch":
        entities = titles.say("all") if step["entities"] is None else titles.listed(step["entities"])
        branch = {"name": step["name"], "geolevel": level, "entities": entities}
        if step["parts"]:
            return titles.say(
                "Branch {name}: every geounit from {geolevel} down is cut by the entities of {family} ({entities}), "
                "into the new geolevel {parts}.",
                family=titles.geolevel(step["family"]),
                parts=titles.geolevel(step["parts"]),
                **branch,
            )
        return titles.say(
            "Branch {name}: every geounit from {geolevel} down is cut by the entities of {family} ({entities}), in its "
            "place.",
            family=titles.geolevel(step["family"]),
            **branch,
        )
    families = _areas(titles, step["families"])
    if step["kind"] == "cut_by_entities":
        return titles.say(
            "{name}: every geounit from {geolevel} down is cut by the entities of {families}; the parts are a geolevel "
            "below {geolevel}, which stays whole."
            if step["keep"]
            else "{name}: every geounit from {geolevel} down is cut by the entities of {families}; the parts are a "
            "geolevel in the place of {geolevel}.",
            name=titles.geolevel(step["name"]),
            geolevel=level,
            families=families,
        )
    return titles.say(
        "{geolevel}: groups of {children} geounits that are in the same entities of {families}, {limit}."
        if step["kind"] == "group_by_membership"
        else "{geolevel}: groups of {children} geounits, merged while no distance of {families} grows, {limit}.",
        geolevel=level,
        children=titles.geolevel(step["children"]),
        families=families,
        limit=_limit(titles, step["limit"]),
    )


def _limit(titles: Titles, limit: dict[str, Any]) -> str:
    if limit["at_most"] is None:
        return titles.say("at most int(√n + {number}) each", number=limit["cutoff"])
    return titles.say(
        "at most int(√n + {number}) each and never more than {most}",
        number=limit["cutoff"],
        most=limit["at_most"],
    )


def _regroup(titles: Titles, record: dict[str, Any]) -> str:
    text = titles.say(
        "{geolevel}: groups chosen anew so that the sum of mean variances of {areas} falls, {limit}."
        if record["measure"] == "sum"
        else "{geolevel}: groups chosen anew so that the greatest variance of {areas} falls, {limit}.",
        geolevel=titles.geolevel(record["geolevel"]),
        areas=_areas(titles, list(record["aim"])),
        limit=_limit(titles, record["limit"]),
    )
    return f"{text} {_guarantee_kept_words(titles, record)}"


def _guarantee_kept_words(titles: Titles, record: dict[str, Any]) -> str:
    """The limit on what other areas may lose through the groups; "" for older releases, which had no limit."""
    # Releases of earlier versions have no such limit.
    if "most_loss" not in record:
        return ""
    place = titles.say(
        "the geography as given" if record["reference"] == "geography" else "the spine before this step"
    )
    loss, free = percent(float(Fraction(record["most_loss"]))), record["may_worsen"]
    if not free:
        return titles.say(
            "No other family of the entity table and no geolevel of the geography was to lose more than {loss} of its "
            "mean standard deviation on {spine}; the table below says what came of it.",
            loss=loss,
            spine=place,
        )
    return titles.say(
        "No other family of the entity table and no geolevel of the geography, but for {areas}, was to lose more than "
        "{loss} of its mean standard deviation on {spine}; the table below says what came of it.",
        areas=_areas(titles, free),
        loss=loss,
        spine=place,
    )


def _bypassing(titles: Titles, record: dict[str, Any]) -> str:
    # A bypassed geounit gives its share away and is not measured.
    without = grouped(sum(level["not_measured"] for level in record["geolevels"]))
    if record["rule"] == "every_query":
        return titles.say(
            "Bypassing: a geounit is left out where its children can take its place and its share without a greater "
            "variance of any query of any geounit. So {number} geounits have no measurement of their own.",
            number=without,
        )
    return titles.say(
        "Bypassing: a geounit with one child is the same area as the child; it is measured once, at the upper "
        "geolevel, with the shares of both. So {number} geounits have no measurement of their own."
        if record["rule"] == "single_child"
        else "Bypassing: a geounit is left out where its share is small beside its children's, which take its place "
        "and its share. If all geolevels measure the same queries with the same query shares, no query of any geounit "
        "has a greater variance then. So {number} geounits have no measurement of their own.",
        number=without,
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
        files.titles.geolevel(item["geolevel"]),
        grouped(noise["cells"]),
        grouped(noise["dimension"]),
        _law(files.titles, item["law"]),
        "ρ" if files.declaration.budget_unit == "rho" else "ε",
        exact(Fraction(item["budget"])),
        (tuple(names[:_NAMES_SHOWN]), grouped(more) if more > 0 else ""),
        privacy["statement"],
        noise["sampler"],
        noise["reason"],
        _spread(files.titles, noise["spread"]),
        item["path"],
    )


def _law(titles: Titles, law: dict[str, str]) -> tuple[str, ExactNumber]:
    if "variance" in law:
        return titles.say("{law}, variance", law=titles.say(law["kind"])), exact(Fraction(law["variance"]))
    return (
        titles.say(
            "{law}, {norm} norm, ε by unit of distance", law=titles.say(law["kind"]), norm=law["norm"]
        ),
        exact(Fraction(law["epsilon"])),
    )


def _spread(titles: Titles, spread: dict[str, Any] | None) -> tuple[str, str, str] | None:
    if spread is None:
        return None
    least, greatest = (rounded(spread["standard_deviation"][name]) for name in ("least", "greatest"))
    between = (
        least if least == greatest else titles.say("{least} to {greatest}", least=least, greatest=greatest)
    )
    return between, rounded(spread["mean_absolute"]), grouped(spread["draws"])


_STATUS_TITLES: dict[EstimateStatus | TileStatus, str] = {
    EstimateStatus.CERTIFIED: phrase("certified"),
    EstimateStatus.CERTIFIED_BY_MORE_SWEEPS: phrase("certified, more sweeps"),
    EstimateStatus.CERTIFIED_FROM_INTERIOR_POINT: phrase("certified, interior point"),
    EstimateStatus.INTERIOR_POINT: phrase("interior point"),
    EstimateStatus.COPIED: phrase("copied"),
    EstimateStatus.ALLOCATED: phrase("divided by a model"),
    EstimateStatus.EMPTY: phrase("empty"),
    TileStatus.SETTLED: phrase("nothing to estimate"),
    TileStatus.LIFTED: phrase("split with their finest geounits"),
    TileStatus.CERTIFIED: phrase("tables, certified"),
    TileStatus.CERTIFIED_BY_RESTART: phrase("tables, certified after a restart"),
    TileStatus.CERTIFIED_BY_MORE_STEPS: phrase("tables, certified by more steps"),
    TileStatus.APPROXIMATE: phrase("tables, approximate"),
}
_ROUNDING_TITLES = {
    RoundingMethod.FIXED: phrase("nothing to round"),
    RoundingMethod.NETWORK_FLOW: phrase("network flow"),
    RoundingMethod.LINEAR_PROGRAM: phrase("linear program"),
    RoundingMethod.INTEGER_PROGRAM: phrase("integer program"),
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
    say = files.titles.say
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
                files.titles.geolevel(level),
                grouped(record["families"]),
                tuple(grouped(record["estimate"].get(item.value, 0)) for item in statuses),
                tuple(grouped(record["rounding"].get(item.value, 0)) for item in roundings),
                grouped(record["rounding_widened"]),
                scientific(record["largest_residual"]),
            )
        )
    return SolverTable(
        tuple(say(_STATUS_TITLES[item]) for item in statuses),
        tuple(say(_ROUNDING_TITLES[item]) for item in roundings),
        tuple(rows),
        (
            *((say(_STATUS_TITLES[item]), item.remedy) for item in statuses),
            *((say(_ROUNDING_TITLES[item]), item.remedy) for item in roundings),
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
    levels = {level: titles.geolevel(level) for level in strategy.geolevels}
    shown, others = _shown_queries(strategy, queries)
    colours = {query: COLOURS[number] for number, query in enumerate(shown)}
    keys = [Key(titles.query(query), colour) for query, colour in colours.items()]
    if others:
        keys.append(Key(_others(others, titles), GREY))
    left = 12 + max(map(text_width, levels.values()))
    right = left + _SHARES + 20
    legend = legend_of(keys, WIDTH - left)
    top = legend.height + 34
    canvas = Canvas(top + (_BAR + _BETWEEN) * len(levels) + 18, titles.language)
    legend.draw(canvas, (left + 3, 2))
    canvas.text((left, top - 12), titles.say("share of the budget"), bold=True)
    canvas.text((right, top - 12), titles.say("how each geolevel divides its share over queries"), bold=True)
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
    description = "; ".join(
        titles.say(
            "{geolevel} {share} of the budget", geolevel=titles.geolevel(level), share=percent(float(share))
        )
        for level, share in strategy.geolevel_shares
    )
    svg = canvas.svg(
        titles.anchor("budget"),
        titles.say("Division of the budget"),
        titles.say("Bars: {shares}. The table below gives the share of every query.", shares=description),
    )
    return Picture(svg, _budget_words(strategy, titles))


def _budget_words(strategy: Strategy, titles: Titles) -> str:
    """Which geolevel has the largest share, and to which of its queries most of it goes."""
    level, share = max(strategy.geolevel_shares, key=lambda item: item[1])
    query, part = max(strategy.shares_of(level), key=lambda item: item[1])
    return titles.say(
        "The largest part of the budget, {share}, goes to {geolevel}, and the largest part of that, {part}, to "
        "“{query}”.",
        share=percent(float(share)),
        geolevel=titles.geolevel(level),
        part=percent(float(part)),
        query=titles.query(query),
    )


def margin_plot(
    expected: Sequence[ExpectedError], geolevels: Sequence[str], queries: Sequence[str], titles: Titles
) -> Picture:
    """Draw the 95 % margin of every measurement."""
    values = {
        (titles.query(item.query), titles.geolevel(item.geolevel)): float(item.margin) for item in expected
    }
    least, most = min(expected, key=lambda item: item.margin), max(expected, key=lambda item: item.margin)
    ends = [
        titles.say(
            "“{query}” at {geolevel}, with a margin of {margin}",
            query=titles.query(item.query),
            geolevel=titles.geolevel(item.geolevel),
            margin=signed(item.margin),
        )
        for item in (least, most)
    ]
    many = titles.unit.many
    svg = dot_plot(
        titles.anchor("margins"),
        [titles.query(query) for query in queries],
        list(map(titles.geolevel, geolevels)),
        values,
        axis=titles.say("95 % margin of one measured count, {units} (logarithmic)", units=many),
        description=titles.say(
            "Margins by query and geolevel, from {least} to {most} {units}; the table below gives each.",
            least=grouped(least.margin),
            most=grouped(most.margin),
            units=many,
        ),
        # A logarithmic axis cannot show 0: an exact measurement is drawn below 1, the least other margin.
        below=0.4 if least.margin == 0 else None,
        language=titles.language,
    )
    return Picture(
        svg,
        titles.say(
            "The most exact measurement is {least}; the least exact one is {most} {units}.",
            least=ends[0],
            most=ends[1],
            units=many,
        ),
    )


_SIZES_ROW, _SIZES_BARS = 59.0, 43.0  # height of a row of bars, and of the bars in it
_SIZES_LEFT = 187.0


def sizes_plot(sizes: Sequence[GeolevelSizes], titles: Titles) -> Picture:
    """Draw histograms of the published sizes of geounits: one row of bars for each geolevel, with the same classes."""
    edges = _edges(max(item.largest for item in sizes))
    canvas = Canvas(_SIZES_ROW * len(sizes) + 50, titles.language)
    places = Scale(-0.6, len(edges) - 0.4, _SIZES_LEFT, WIDTH - 18)
    for number, item in enumerate(sizes):
        base = 10 + _SIZES_ROW * (number + 1)
        _size_bars(canvas, item, edges, places, base)
        canvas.text((_SIZES_LEFT - 12, base - 31), titles.geolevel(item.geolevel), anchor="end")
        canvas.text((_SIZES_LEFT - 12, base - 15), _size_words(item, titles), MUTED, size=SMALL, anchor="end")
        # Labels only at 0, 1, 10, 100, ...: the classes between them follow as 2 and 5 times.
        decades = [place for place, edge in enumerate(edges) if edge == 0 or str(edge).strip("0") == "1"]
        last = number == len(sizes) - 1
        canvas.axis(
            places,
            base,
            [(place, grouped(edges[place])) for place in decades] if last else (),
            title=titles.say(
                "{units} published in the geounit (classes 1, 2–4, 5–9, 10–19, …)", units=titles.unit.many
            )
            if last
            else "",
        )
    description = "; ".join(
        titles.say(
            "{geolevel}: {geounits}, median {median}, largest {largest} {units}",
            geolevel=titles.geolevel(item.geolevel),
            geounits=_geounits(item.geounits, titles),
            median=grouped(item.median),
            largest=grouped(item.largest),
            units=titles.unit.many,
        )
        for item in sizes
    )
    svg = canvas.svg(
        titles.anchor("sizes"),
        titles.say("Sizes of geounits"),
        titles.say("Sizes of geounits. {sizes}.", sizes=description),
    )
    return Picture(svg, _sizes_words(sizes[-1], titles))


def _sizes_words(finest: GeolevelSizes, titles: Titles) -> str:
    """The median size of the finest geounits, and how many of them are empty."""
    unit, language = titles.unit, titles.language
    half = titles.say(
        "At {geolevel}, half of the {number} areas have {median} {units} or fewer",
        geolevel=titles.geolevel(finest.geolevel),
        number=grouped(finest.geounits),
        median=grouped(finest.median),
        units=unit.one if finest.median in language.singular else unit.many,
    )
    empty = (
        language.counted(finest.empty, "{number} is empty", "{number} are empty")
        if finest.empty
        else titles.say("none is empty")
    )
    return f"{half}; {empty}."


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


def _others(others: Sequence[str], titles: Titles) -> str:
    return titles.say("{number} other queries", number=len(others))


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
                Figure(f"{100 * share:.3g} %"),
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


def _size_words(item: GeolevelSizes, titles: Titles) -> str:
    words = [_geounits(item.geounits, titles)]
    if item.empty:
        words.append(titles.say("{number} empty", number=grouped(item.empty)))
    return ", ".join(words)


def _geounits(number: int, titles: Titles) -> str:
    return titles.language.counted(number, "{number} geounit", "{number} geounits")


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
    numbers = _Numbers(
        expected_of(files),
        geolevel_sizes(files),
        release_guess(files),
        secret_costs(files),
        fixed_shares(files.plan),
    )
    if not files.plan.languages:
        return write_release_page(run_dir, "release.html.j2", _values(files, numbers), module=__name__)
    editions = []
    for tag in files.plan.languages:
        called = in_language(files, tag)
        language = called.titles.language
        values = signed_values(run_dir, MANIFEST, _values(called, numbers), language)
        editions.append(Edition(tag, language, values))
    return write_editions(run_dir / REPORT, "release.html.j2", editions, module=__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Numbers:
    """What is the same in every language of a page, computed once.

    Attributes:
        expected: Errors of the measurements.
        sizes: Of the geolevels, root first.
        right: Upper bound of the share of right guesses.
        secrets: What secrets of a record cost.
        fixed_shares: Shares that are spent on what is published exactly.
    """

    expected: Sequence[ExpectedError]
    sizes: Sequence[GeolevelSizes]
    right: Fraction
    secrets: Sequence[SecretCost]
    fixed_shares: dict[str, Any] | None


def _values(files: ReleaseFiles, numbers: _Numbers) -> dict[str, Any]:
    titles, manifest, uncertainty = files.titles, files.manifest, uncertainty_of(files)
    expected, sizes, right = numbers.expected, numbers.sizes, numbers.right
    return {
        "tiles": release_tiles(files, sizes, uncertainty, right),
        "points": release_points(files, sizes, expected, uncertainty, right),
        "name": files.title,
        "run": manifest.run,
        "is_protected": files.is_protected,
        "marks": marks_of(manifest).lines(titles.language),
        "unit": files.unit,
        "attributes": titles.listed([titles.factor(name) for name in attribute_names(files)]),
        "geolevels": list(map(titles.geolevel, files.geolevels)),
        "tables": [files.titles.query(query) for query in files.plan.tables],
        "privacy": privacy_statement(files, numbers.secrets),
        "drawn": drawn_counts(files),
        "post_processing": manifest.privacy["post_processing"],
        "fixed_shares": numbers.fixed_shares,
        "shares": share_matrix(files, expected),
        "spine": spine_view(files),
        "entities": list(map(titles.geolevel, files.plan.entity_families)),
        "paths": manifest.privacy.get("paths"),
        "margins": margin_matrix(files, expected),
        "error_lines": error_lines(files, expected),
        "sizes": [(titles.geolevel(item.geolevel), item) for item in sizes],
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
        "sizes_plot": sizes_plot(sizes, titles),
        "uncertainty": uncertainty,
        "measurements": files.plan.measurements,
        "microdata": files.plan.microdata,
    }
