"""The workbench of a plan: a static site in which an office moves budget and shares.

The office sees cost and accuracy at once. The page gets the release file as a template: its own text, with
slots where the page writes the budget and the shares. Everything but the tables that hold these numbers stays
as it is, comments too. A strategy preset is replaced by the tables that it stands for, because a file with
shares of its own cannot name a preset.

Standard deviations of estimates are exact on a spine. The spine is that of the public geography, if it may be
opened. Otherwise it is a *regular* one, in which every geounit of a geolevel has the same number of children.
The page computes its covariances from one geounit of each geolevel.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import tomlkit
from tomlkit.items import Table

from tallyveil.errors import ConfigError
from tallyveil.explore.district import write_planned_district
from tallyveil.explore.files import (
    OTHER,
    SITE_FILE,
    copy_pages,
    copy_words,
    replaced_site,
    write_json_data,
)
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine, geocodes_of
from tallyveil.plans.from_toml.load import load_plan, plan_from_mapping
from tallyveil.plans.guess import guess_sentences
from tallyveil.plans.record import strategy_tables
from tallyveil.plans.release import ReleasePlan
from tallyveil.plans.resources import GEOUNITS_PER_PARENT, sizes_of_blocks
from tallyveil.products.topdown.run.before_spend import inputs_of
from tallyveil.report.release_files import schema_titles
from tallyveil.schema.labels import NO_LABELS
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Unit
from tallyveil.storage.json_files import JsonObject, read_text_file
from tallyveil.version import VERSION
from tallyveil.words.language import TAGS, Language, language_of, phrase

MOST_CODES: Final = 200_000
"""Most geounits of a geolevel whose geocodes a page gets, so that a reader can choose one."""
MOST_ANSWERS: Final = 20_000
"""Most answers of a query whose estimates are shown."""
MOST_LABELS: Final = 200
"""Most answers of a query that are shown one by one for an area."""


@dataclass(frozen=True, slots=True)
class WorkbenchAreas:
    """What is known of areas.

    Attributes:
        hierarchies: The spine of the public geography; None for a regular spine.
        families: Families of entities to choose from.
        blocks: Number of finest geounits of a regular spine; None for numbers of children like those of the census.
    """

    hierarchies: Hierarchies | None = None
    families: tuple[EntityFamily, ...] = ()
    blocks: int | None = None


def write_estimates(
    site: Path, plan: ReleasePlan, areas: WorkbenchAreas, queries: Sequence[str] | None
) -> JsonObject:
    """Write the covariances, and say what was written.

    Args:
        site: Folder of the site.
        plan: The plan. With the geography, its public bounds are opened; its records never are.
        areas: The spine and the entities.
        queries: Queries to show; None for the plan's tables and all measured queries.
    Returns:
        `spine` and `why`, one of which is None (`app/workbench/state.js`, `GivenPlan`).
    """
    why = _why_not(plan)
    if why is not None:
        return {"spine": None, "why": why}
    groups = _groups(plan, queries)
    hierarchies = areas.hierarchies
    if hierarchies is None:
        # One geounit a geolevel stands for all; bounds are of real geounits, and are left out.
        plan, hierarchies = replace(plan, bounds=()), _single(plan)
    rows = np.arange(hierarchies.spine.n_geounits(hierarchies.spine.finest))
    why = write_planned_district(site, plan, hierarchies, groups, rows)
    if why is not None:
        return {"spine": None, "why": why}
    regular = areas.hierarchies is None
    spine: JsonObject = {
        "kind": "regular" if regular else "geography",
        "levels": list(hierarchies.spine.geolevels),
        "shown": list(hierarchies.known_levels),
        "children": _children(plan, areas.blocks) if regular else [],
        "numbers": [hierarchies.spine.n_geounits(level) for level in range(hierarchies.spine.n_levels)],
        "codes": [] if regular else _codes(hierarchies),
        "families": [_family(family) for family in areas.families],
        "labels": {group.name: list(group.labels()) for group in groups if group.size <= MOST_LABELS},
    }
    return {"spine": spine, "why": None}


def _why_not(plan: ReleasePlan) -> str | None:
    if plan.spine is not None and (plan.spine.bypassing is not None or plan.spine.regroup is not None):
        return phrase(
            "The steps of [spine] choose geounits by the variances of the strategy, so every change of a share makes "
            "another spine. Expected errors of estimates are not offered here. `tallyveil plan --families` shows them "
            "for the downloaded file."
        )
    if plan.spine is not None and plan.spine.changes:
        return phrase(
            "The spine of this release is made by steps from its geography. Expected errors of estimates are not "
            "offered here. `tallyveil plan --families` shows them for the downloaded file."
        )
    return None


def _groups(plan: ReleasePlan, queries: Sequence[str] | None) -> list[QueryGroup]:
    """The queries that are shown.

    Raises:
        ConfigError: there is none.
    """
    strategy = plan.strategy
    # Tables first, because a reader looks for what is published.
    every = queries or (
        *plan.tables,
        *(query for level in strategy.geolevels for query in strategy.queries(level)),
    )
    groups = [plan.query(name) for name in dict.fromkeys(every)]
    shown = [group for group in groups if group.size <= MOST_ANSWERS]
    if not shown:
        raise ConfigError(
            f"every query of the plan has more than {MOST_ANSWERS:,} answers. Name smaller ones with --queries.",
            code="bad-flag",
        )
    return shown


def _single(plan: ReleasePlan) -> Hierarchies:
    """A spine with one geounit at each geolevel."""
    levels = plan.geolevels
    offsets = tuple(np.array([0, 1], np.int64) for _ in levels[1:])
    spine = Spine(levels, tuple(geocodes_of(["0"], level) for level in levels), offsets)
    return Hierarchies(spine, spine)


def _children(plan: ReleasePlan, blocks: int | None) -> list[int]:
    """Number of children of a geounit of each geolevel, root first."""
    n = len(plan.geolevels)
    if blocks is not None:
        numbers = sizes_of_blocks(n, blocks).geounits
        # At least one child, also where a small country has fewer blocks than the usual tree has levels.
        return [max(1, round(below / above)) for above, below in pairwise(numbers)]
    last = len(GEOUNITS_PER_PARENT) - 1
    return [round(GEOUNITS_PER_PARENT[min(step, last)]) for step in reversed(range(n - 1))]


def _codes(hierarchies: Hierarchies) -> list[list[str] | None]:
    return [
        [str(code) for code in hierarchies.spine.geocodes[level]]
        # A list that nobody can choose from would only make the page heavy.
        if hierarchies.spine.n_geounits(level) <= MOST_CODES
        else None
        for level in range(hierarchies.spine.n_levels)
    ]


def _family(family: EntityFamily) -> JsonObject:
    members = [family.members_of(entity).tolist() for entity in range(family.n_entities)]
    return {"name": family.name, "codes": list(family.codes), "members": members}


Piece: TypeAlias = "str | dict[str, str]"

_MARK: Final = "tallyveil-workbench-slot"
_SLOT: Final = re.compile(rf"{_MARK}:([a-z0-9.]+):")


def release_template(path: Path, plan: ReleasePlan) -> list[Piece]:
    """The release file as pieces of text and slots.

    The slots are `total`, `declared`, `g<i>` for the share of geolevel i, and `q<i>.<k>` for the share of its query k.

    Args:
        path: The release file.
        plan: Its plan.
    Raises:
        ConfigError: the text cannot be made into a template of the same plan.
    """
    text = read_text_file(path)
    # The page finds its slots by this text; in the file itself it would be taken for one.
    if _MARK in text:
        raise ConfigError(
            f"{path} contains the text '{_MARK}', which the workbench uses for itself. Change it in the file.",
            code="workbench-file",
        )
    document = tomlkit.parse(text)
    _write_slots(document, plan)
    pieces = list(_pieces(tomlkit.dumps(document)))
    _require_same_plan(path, pieces, plan)
    return pieces


def filled(pieces: list[Piece], values: Mapping[str, Fraction]) -> str:
    """The text of a template with its slots filled."""
    return "".join(piece if isinstance(piece, str) else str(values[piece["slot"]]) for piece in pieces)


def planned_values(plan: ReleasePlan) -> dict[str, Fraction]:
    """The values of all slots in the plan itself."""
    strategy = plan.strategy
    values = {"total": strategy.total, "declared": plan.declared}
    for i, (geolevel, share) in enumerate(strategy.geolevel_shares):
        values[f"g{i}"] = share
        for k, (_, part) in enumerate(strategy.shares_of(geolevel)):
            values[f"q{i}.{k}"] = part
    return values


def _write_slots(document: Any, plan: ReleasePlan) -> None:
    strategy = plan.strategy
    table, unit = _strategy_table(document), strategy.budget_unit
    # Remembered now, because the key is taken out just below.
    has_preset = "preset" in table
    # What the sliders set is written anew; everything else of the file stays as its author wrote it, comments too.
    for key in ("preset", "rho", "epsilon", "delta", "geolevels", "queries"):
        table.pop(key, None)
    table.add(unit, _slot("total"))
    table.add("geolevels", _slots({name: f"g{i}" for i, name in enumerate(strategy.geolevels)}))
    queries = tomlkit.table(is_super_table=True)
    for i, level in enumerate(strategy.geolevels):
        queries.add(level, _slots({name: f"q{i}.{k}" for k, name in enumerate(strategy.queries(level))}))
    table.add("queries", queries)
    # A preset brings its estimation along, and without it the plan would fall back to other settings.
    if has_preset:
        document.pop("estimation", None)
        document.add("estimation", tomlkit.parse(strategy_tables(strategy, plan))["estimation"])
    privacy = document["privacy"]
    if unit == "rho":
        # Declared in one unit alone: a leftover in the other would contradict the slider.
        privacy.pop("epsilon", None)
    privacy[unit] = _slot("declared")


def _strategy_table(document: Any) -> Table:
    """The table of the strategy. If it is written inline, with dotted keys or in several places, it is written anew."""
    strategy = document["strategy"]
    if isinstance(strategy, Table) and not strategy.is_super_table():
        return strategy
    table = tomlkit.table()
    for key, value in document.unwrap()["strategy"].items():
        table.add(key, value)
    document.remove("strategy")
    document.add("strategy", table)
    return table


def _slot(name: str) -> str:
    return f"{_MARK}:{name}:"


def _slots(names: Mapping[str, str]) -> Table:
    table = tomlkit.table()
    for name, slot in names.items():
        table.add(name, _slot(slot))
    return table


def _pieces(text: str) -> Iterator[Piece]:
    # A split with one group gives text and slot in turn.
    for number, piece in enumerate(_SLOT.split(text)):
        yield {"slot": piece} if number % 2 else piece


def _require_same_plan(path: Path, pieces: list[Piece], plan: ReleasePlan) -> None:
    # The template with its own numbers must be the plan itself; whatever the editing lost would show here.
    plan_again = plan_from_mapping(
        tomlkit.parse(filled(pieces, planned_values(plan))).unwrap(), path.parent
    ).to_mapping()
    if plan_again == plan.to_mapping():
        return
    others = sorted(key for key, value in plan.to_mapping().items() if plan_again.get(key) != value)
    raise ConfigError(
        f"the workbench cannot write {path} with shares of its own: the plan would differ in {', '.join(others)}. "
        "Write the shares under [strategy.geolevels] and [strategy.queries], in the place of a preset.",
        code="workbench-file",
    )


def require_offered(path: Path, plan: ReleasePlan) -> None:
    """Refuse a release whose budget is not divided by geolevel and query alone.

    Raises:
        ConfigError: counts of the release are drawn on the lattice of its invariants.
    """
    if plan.subspace:
        drawn = ", ".join(f"{item.query} at {item.geolevel}" for item in plan.subspace)
        raise ConfigError(
            f"{path} draws counts on the lattice of its invariants ({drawn}). Their budget is no share of the "
            "strategy, and the workbench has no slider for it. `tallyveil plan` shows this release; for a workbench, "
            "remove [[subspace]].",
            code="workbench-file",
        )


def plan_content(path: Path, plan: ReleasePlan) -> JsonObject:
    """The plan as the page reads it (`app/workbench/state.js`, `GivenPlan`)."""
    strategy, sensitivities = plan.strategy, dict(plan.strategy.sensitivities)
    return {
        "name": plan.name,
        "neighbours": strategy.neighbours.value,
        "mechanism": strategy.mechanism.value,
        "delta": str(plan.delta),
        "declared": str(plan.declared),
        "total": str(strategy.total),
        "bypasses": plan.may_bypass,
        "words": {tag: _words(plan, language_of(tag)) for tag in TAGS},
        "invariants": [f"{item.query} at {', '.join(item.geolevels)}" for item in plan.invariants],
        "geolevels": [
            {
                "name": level,
                "share": str(share),
                "queries": [
                    {
                        "name": query,
                        "share": str(part),
                        "answers": plan.query(query).size,
                        "sensitivity": sensitivities.get(query, 1),
                    }
                    for query, part in strategy.shares_of(level)
                ],
            }
            for level, share in strategy.geolevel_shares
        ],
        "template": release_template(path, plan),
    }


def _words(plan: ReleasePlan, language: Language) -> JsonObject:
    """What the page says of a record in a language: the plan's labels for it, or the common words."""
    labels = plan.labels_in(language.tag) if language.tag in plan.languages else NO_LABELS
    unit = schema_titles(plan.schema, labels, language).unit
    # Households that are derived from persons protect a person, of whom the plan has no label.
    protected = plan.protected_unit
    if protected == plan.schema.unit:
        protected = unit
    else:
        protected = Unit(language.say(protected.one), language.say(protected.many))
    guess = guess_sentences(plan.strategy.neighbours, protected, language)
    return {"unit": {"one": unit.one, "many": unit.many}, "guess": list(guess)}


# Version of what the page reads.
FORMAT: Final = 2
PAGES: Final = {"index.html": Path("app", "workbench", "index.html")}


@dataclass(frozen=True, slots=True)
class Workbench:
    """A workbench that was made.

    Attributes:
        path: Its folder.
        why: Why it has no expected errors of estimates; None if it has them.
    """

    path: Path
    why: str | None

    def to_mapping(self) -> dict[str, Any]:
        """Plain data."""
        return {"site": str(self.path), "why_no_estimates": self.why}


def make_workbench(
    release_file: Path,
    site: Path,
    *,
    compared: Path | None = None,
    areas: WorkbenchAreas | None = None,
    queries: Sequence[str] | None = None,
) -> Workbench:
    """Make the workbench of a release file.

    Args:
        release_file: The release file.
        site: Folder of the site: it does not exist, is empty, or holds an earlier site, which is replaced.
        compared: A second release file, whose numbers stand beside those of the first; None without.
        areas: The public geography and the entities, if they may be opened; None for a regular spine.
        queries: Queries whose estimates are shown; None for the tables and all measured queries.
    Returns:
        What was made.
    Raises:
        ConfigError: a release file is not offered, or a query is not known.
        StoreError: the folder holds something else or an input, or cannot be written to.
    """
    # Both plans are read before the folder is touched.
    plan, content = _offered(release_file)
    inputs, other, second = [release_file, *inputs_of(plan)], None, None
    if compared is not None:
        second, other = _offered(compared)
        inputs += [compared, *inputs_of(second)]
    with replaced_site(site, inputs) as unfinished:
        copy_pages(unfinished, PAGES)
        copy_words(unfinished, TAGS)
        estimates = write_estimates(unfinished, plan, areas or WorkbenchAreas(), queries)
        if second is not None and other is not None:
            other |= _other_estimates(unfinished / OTHER, second, plan, areas or WorkbenchAreas(), queries)
        write_json_data(
            unfinished,
            SITE_FILE,
            {
                "format": FORMAT,
                "made_by": f"tallyveil {VERSION}",
                "file": release_file.name,
                "plan": {**content, **estimates},
                "other": other,
                "other_file": None if compared is None else compared.name,
            },
        )
    return Workbench(site, estimates["why"])


def _offered(release_file: Path) -> tuple[ReleasePlan, JsonObject]:
    """A plan and what the page is told of it; raises ConfigError if the workbench does not offer it."""
    plan = load_plan(release_file)
    require_offered(release_file, plan)
    return plan, plan_content(release_file, plan)


def _other_estimates(
    folder: Path, plan: ReleasePlan, first: ReleasePlan, areas: WorkbenchAreas, queries: Sequence[str] | None
) -> JsonObject:
    """Write the covariances of the second plan on the spine of the first.

    A geography has the geolevels of the first plan. A regular spine can have any: the page takes the numbers of
    children of geolevels with the same names from the first one.
    """
    # Other cells: an error of one schema is no error of the other.
    if plan.schema != first.schema:
        return {
            "spine": None,
            "why": phrase("The second plan has another schema, so its estimates are not compared."),
        }
    if areas.hierarchies is not None and plan.geolevels != first.geolevels:
        return {
            "spine": None,
            "why": phrase(
                "The second plan has other geolevels than the geography of the first, so its estimates are not "
                "compared. Without --read-geography they are compared on a regular spine."
            ),
        }
    return write_estimates(folder, plan, areas, queries)
