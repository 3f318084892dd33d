"""Checks between the published files of several releases of a programme, which no release can make by itself.

Files of people and of units are made from different measurements. If nothing ties them together, a block may have
people and no occupied unit, or other householders in one file than in the other. Such blocks are counted from the
published counts alone. Releases can be made to agree so that some kinds of contradictions cannot occur. The other kinds
are only counted: the numbers tell how far the files are apart.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.files.geography import GEOGRAPHY, read_geography
from tallyveil.files.histograms import histogram_path, read_histogram
from tallyveil.files.household_totals import (
    KINDS,
    OLDER,
    HouseholdPeople,
    Households,
    RedistrictingPeople,
    Units,
    household_people,
    households,
    redistricting_people,
    units,
)
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import require_unchanged
from tallyveil.schema.counts import PublicCounts, sum_triplets
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema, schema_from_mapping
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.published import read_published


@dataclass(frozen=True, slots=True)
class Contradiction:
    """One way in which two files can contradict each other, and how often they do.

    Attributes:
        name: A short name.
        meaning: What is true of files without such a contradiction, as a sentence.
        can_agree: Whether releases can be made to agree in this; of sizes, whether these releases were.
        n_geounits: Finest geounits that contradict; of sizes that were made to agree, the areas that do.
        n_records: By how many records they differ, summed over these geounits.
    """

    name: str
    meaning: str
    can_agree: bool
    n_geounits: int
    n_records: int


@dataclass(frozen=True, slots=True, eq=False)
class SizedAreas:
    """The areas in which a release of units was made to agree with household people in the sizes of households.

    Attributes:
        geolevel: Their geolevel.
        area: The number of the area that each finest geounit lies in, shape (G,).
    """

    geolevel: str
    area: Integers


def between_people(earlier: RedistrictingPeople, persons: HouseholdPeople) -> tuple[Contradiction, ...]:
    """Compare two files of people."""
    # Two releases measure the people apart, so that either may have more.
    gaps = np.abs(earlier.members - persons.members)
    return (
        _avoidable(gaps, "people in households", "Both files have the same number of people in households."),
    )


def between_units(earlier: Units, homes: Households) -> tuple[Contradiction, ...]:
    """Compare two files of units."""
    return (
        _avoidable(
            np.abs(earlier.occupied - homes.occupied),
            "occupied units",
            "Both files have the same number of occupied units.",
        ),
        _avoidable(
            np.abs(earlier.vacant - homes.vacant),
            "vacant units",
            "Both files have the same number of vacant units.",
        ),
    )


def people_and_units(
    people: RedistrictingPeople | HouseholdPeople, homes: Units | Households, sized: SizedAreas | None = None
) -> tuple[Contradiction, ...]:
    """Compare a file of people with a file of units. Every comparison is returned, also those without a contradiction.

    Args:
        people: What the first file says of people in households.
        homes: What the second one says of units, in the same order of geounits.
        sized: Where the two files were made to agree in sizes; None where they were not.
    """
    members, occupied = people.members, homes.occupied
    contradictions = [
        _avoidable(
            # The people themselves and not the geounits are counted, so that the second number says how many lack a
            # unit.
            members * (occupied == 0),
            "people without a unit",
            "Where people live in households, a unit is occupied.",
        ),
        _avoidable(
            np.maximum(occupied - members, 0),
            "units without people",
            "There are at least as many people in households as occupied units.",
        ),
    ]
    if isinstance(people, HouseholdPeople):
        contradictions.append(
            _avoidable(
                np.abs(people.householders - occupied),
                "householders",
                "There are as many householders as occupied units.",
            )
        )
        if isinstance(homes, Households):
            # Comparisons in which releases can agree come first; the manifest of a programme keeps this order.
            contradictions += [*_households(people, homes), *_not_made_to_agree(people, homes)]
            contradictions += [] if sized is None else [_sizes_in(people, homes, sized)]
    return tuple(contradictions)


def _households(people: HouseholdPeople, homes: Households) -> list[Contradiction]:
    """Comparisons of persons and households in which releases can be made to agree."""
    return [
        _avoidable(
            _differences(people.kinds, homes.kinds),
            "kinds of householders",
            "Both files have the same number of householders of each kind: living alone or with others, sex, age "
            "group, "
            "Hispanic origin and race.",
        ),
        _avoidable(
            np.abs(people.alone - homes.alone),
            "living alone",
            "As many people live alone as there are households of size 1.",
        ),
        _avoidable(
            np.maximum(homes.occupied - homes.alone - (people.members - people.householders), 0),
            "households with others",
            "There are enough other people for every household of two or more.",
        ),
        _avoidable(
            np.abs(people.partners.sum(axis=1) - homes.coupled.sum(axis=1)),
            "partners",
            "There are as many spouses and unmarried partners as coupled households.",
        ),
    ]


def _sizes_in(people: HouseholdPeople, homes: Households, sized: SizedAreas) -> Contradiction:
    """The comparison of sizes in the areas in which the files were made to agree in them."""
    # Areas are sums of geounits, of which many lie in one: add.at, where indexing would keep the last one alone.
    members, least, open_ended = np.zeros((3, int(sized.area.max(initial=-1)) + 1), dtype=np.int64)
    sums = ((members, people.members), (least, homes.least_members), (open_ended, homes.open_ended))
    for total, values in sums:
        np.add.at(total, sized.area, values)
    return _avoidable(
        _size_gaps(members, least, open_ended),
        f"sizes in {sized.geolevel}",
        f"In every {sized.geolevel}, the sizes of the households add up to the people in households.",
    )


def _size_gaps(members: Integers, least: Integers, open_ended: Integers) -> Integers:
    """By how many people sizes are above or below the people in households.

    The largest size is open, so only areas without such households can have people too many.
    """
    # Households of the open size may have any number of people above its least.
    too_many = np.where(open_ended == 0, np.maximum(members - least, 0), 0)
    gaps: Integers = np.maximum(least - members, 0) + too_many
    return gaps


def _not_made_to_agree(people: HouseholdPeople, homes: Households) -> list[Contradiction]:
    """Comparisons of persons and households in which nothing makes finest geounits agree, or only passes for sizes."""
    # A person of 75 is one of 60 and 65 too, so that each threshold is compared by itself.
    older = sum(
        _misplaced(homes.older[:, k], homes.older[:, k], people.older[:, k]) for k in range(len(OLDER))
    )
    # Three generations need a child and one of the other relatives: the scarcer of the two is the limit.
    generations = np.minimum(people.children, people.generations)
    return [
        _unavoidable(
            np.abs(people.partners - homes.coupled).sum(axis=1),
            "kinds of partners",
            "Spouses and unmarried partners, of the same and of the opposite sex, are as many as households of their "
            "kind.",
        ),
        _unavoidable(
            _size_gaps(people.members, homes.least_members, homes.open_ended),
            "sizes",
            "The sizes of the households add up to the people in households.",
        ),
        _unavoidable(
            _misplaced(homes.with_minors, homes.with_minors, people.minors),
            "minors",
            "People under 18 live in households with somebody under 18, and there are enough of them.",
        ),
        _unavoidable(
            _misplaced(homes.with_own, homes.least_own, people.own_minors),
            "own children",
            "Own children under 18 live in households with own children under 18, and there are enough of them.",
        ),
        _unavoidable(
            np.asarray(older),
            "older people",
            "People of 60, 65 and 75 or more live in households whose oldest person is as old, and there are enough "
            "of them.",
        ),
        _unavoidable(
            np.maximum(homes.multigenerational - generations, 0),
            "generations",
            "There are enough children, and enough parents, parents-in-law or grandchildren, for every household of "
            "three generations.",
        ),
    ]


def _misplaced(homes: Integers, needed: Integers, people: Integers) -> Integers:
    """How many people of some kind the households that need them lack; all such people where no household has any."""
    missing: Integers = np.maximum(needed - people, 0)
    return missing + np.where(homes == 0, people, 0)


def _differences(counts_1: PublicCounts, counts_2: PublicCounts) -> Integers:
    """By geounit, the differences between the householders of each kind in two files, summed over all kinds."""
    rows = [
        np.repeat(np.arange(counts.n_geounits), np.diff(counts.offsets)) for counts in (counts_1, counts_2)
    ]
    geounits, _, gaps = sum_triplets(
        np.concatenate(rows),
        np.concatenate([counts_1.cells, counts_2.cells]),
        # Counts of the second file with a minus sign: what is left of a pair is its difference, and equal counts
        # vanish.
        np.concatenate([counts_1.counts.astype(np.int64), -counts_2.counts.astype(np.int64)]),
        KINDS,
    )
    differences = np.zeros(counts_1.n_geounits, dtype=np.int64)
    np.add.at(differences, geounits, np.abs(gaps))
    return differences


def _avoidable(gaps: Integers, name: str, meaning: str) -> Contradiction:
    return Contradiction(name, meaning, True, int(np.count_nonzero(gaps)), int(gaps.sum()))


def _unavoidable(gaps: Integers, name: str, meaning: str) -> Contradiction:
    return Contradiction(name, meaning, False, int(np.count_nonzero(gaps)), int(gaps.sum()))


_READERS: Final[Mapping[str, Callable[[Schema, PublicCounts], Any]]] = {
    "pl94-persons": redistricting_people,
    "pl94-units": units,
    "dhc-persons": household_people,
    "dhc-units": households,
}
"""By schema preset, what is read of a file."""

_COMPARISONS: Final[Mapping[tuple[str, str], Callable[..., tuple[Contradiction, ...]]]] = {
    ("pl94-persons", "dhc-persons"): between_people,
    ("pl94-units", "dhc-units"): between_units,
    ("pl94-persons", "pl94-units"): people_and_units,
    ("pl94-persons", "dhc-units"): people_and_units,
    ("dhc-persons", "pl94-units"): people_and_units,
    ("dhc-persons", "dhc-units"): people_and_units,
}
"""By the schema presets of two files, how they are compared."""


def checks_between(root: Path, releases: Sequence[tuple[str, Manifest]]) -> list[JsonObject]:
    """What was found between the files of finished releases, each with its name, whether they agree, and a sentence.

    Args:
        root: Folder of the programme.
        releases: Names of the releases, which are those of their folders, and their manifests.
    Raises:
        StoreError: a published file cannot be read.
    """
    if len(releases) < 2:
        return []
    same = _finest_geounits(root, releases)
    # Without the same geounits the arrays are of different areas, and comparing them row by row would mean nothing.
    return [same, *(_contradictions(root, releases) if same["agrees"] else ())]


def _finest_geounits(root: Path, releases: Sequence[tuple[str, Manifest]]) -> JsonObject:
    """Whether the releases count in the same finest geounits, so that their tables can be joined by geocode."""
    first, others = releases[0], releases[1:]
    level, wanted = _finest(first[1]), _geocodes(root, *first)
    different = [name for name, manifest in others if not _geocodes(root, name, manifest).equals(wanted)]
    statement = f"All releases have the same {len(wanted):,} {level} geounits, by whose geocodes tables can be joined."
    if different:
        statement = (
            f"These releases have other finest geounits than {first[0]}: {', '.join(different)}. Join their tables "
            "only where the geocodes are the same."
        )
    return {"check": "same finest geounits", "agrees": not different, "statement": statement}


def _finest(manifest: Manifest) -> str:
    return str(manifest.body["plan"]["geolevels"][-1])


def _geocodes(root: Path, name: str, manifest: Manifest) -> pl.Series:
    """The geocodes of the finest geounits of a release, sorted."""
    level = _finest(manifest)
    return read_published(root / name / GEOGRAPHY, [level])[level].alias("geocode").sort()


@dataclass(frozen=True, slots=True, eq=False)
class _File:
    """What a published file says of households.

    Attributes:
        release: Name of its release.
        preset: Name of the schema preset whose attributes it has.
        geolevel: Its finest geolevel.
        n_geounits: Number of geounits there.
        run: Run that published it.
        totals: What was read, with the geounits in the order of their geocodes.
        sized: For each run whose people the sizes of its households add up to, the areas in which they do.
    """

    release: str
    preset: str
    geolevel: str
    n_geounits: int
    run: str
    totals: Any
    sized: Mapping[str, SizedAreas]


def _contradictions(root: Path, releases: Sequence[tuple[str, Manifest]]) -> Iterator[JsonObject]:
    """For each two files that both say something of households, how they contradict each other."""
    files = [file for name, manifest in releases if (file := _read(root / name, name, manifest)) is not None]
    for (left_preset, right_preset), compare in _COMPARISONS.items():
        # A programme has few releases, so that all pairs are tried.
        for left in files:
            for right in files:
                if (left.preset, right.preset) == (left_preset, right_preset):
                    sized = right.sized.get(left.run)
                    more = {} if sized is None else {"sized": sized}
                    yield _compared(left, right, compare(left.totals, right.totals, **more))


def _read(root: Path, name: str, manifest: Manifest) -> _File | None:
    """What the file of a release says of households; None if its attributes are not those of a preset that does."""
    # By the attributes, and not by the name: a plan may state a preset's schema without naming it.
    schema = schema_from_mapping(manifest.body["plan"]["schema"])
    preset = next(
        (
            name_of_preset
            for name_of_preset in _READERS
            if load_preset(name_of_preset).attributes == schema.attributes
        ),
        None,
    )
    if preset is None:
        return None
    spine = read_geography(root)
    geolevel = spine.geolevels[-1]
    counts = read_histogram(root, geolevel, schema, spine)
    # After reading: what was read is then what the manifest lists, or the comparison is not made.
    require_unchanged(root, manifest, histogram_path(root, geolevel))
    # Each release may have a spine of its own. Only the order of geocodes is common to them.
    order = spine.geocodes[spine.finest].text.arg_sort().to_numpy().astype(np.int64)
    totals = _READERS[preset](schema, _in_order(counts, order))
    sized = {
        item["run"]: SizedAreas(
            item["geolevel"], spine.ancestors(spine.geolevels.index(item["geolevel"]))[order]
        )
        for item in manifest.body.get("residents", ())
        if "households" in item
    }
    return _File(name, preset, geolevel, counts.n_geounits, manifest.run, totals, sized)


def _in_order(counts: PublicCounts, order: np.ndarray) -> PublicCounts:
    """The same counts, with the geounits in another order."""
    lengths = np.diff(counts.offsets)[order]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    # For each entry its old place: the start of its geounit's old row, counted on from its new one.
    entries = np.repeat(counts.offsets[:-1][order] - offsets[:-1], lengths) + np.arange(int(offsets[-1]))
    return PublicCounts(counts.geolevel, offsets, counts.cells[entries], counts.counts[entries])


def _compared(left: _File, right: _File, contradictions: Sequence[Contradiction]) -> JsonObject:
    """What was found between two files, for `programme.json`."""
    # What can agree and does not is a fault of the releases; the rest is only reported.
    wrong = [item for item in contradictions if item.can_agree and item.n_geounits]
    never = [item for item in contradictions if not item.can_agree and item.n_geounits]
    compared = ", ".join(item.name for item in contradictions if item.can_agree)
    statement = (
        f"No contradiction in any of {left.n_geounits:,} {left.geolevel} geounits. Compared: {compared}."
    )
    if wrong:
        statement = (
            f"Of {left.n_geounits:,} {left.geolevel} geounits, some contradict each other: {_counted(wrong)}."
        )
    if never:
        statement += f" Not made to agree: {_counted(never)}."
    return {
        "check": f"{left.release} and {right.release}",
        "agrees": not wrong,
        "statement": statement,
        "kinds": [
            {
                "kind": item.name,
                "meaning": item.meaning,
                "can_agree": item.can_agree,
                "geounits": item.n_geounits,
                "records": item.n_records,
            }
            for item in contradictions
        ],
    }


def _counted(contradictions: Sequence[Contradiction]) -> str:
    return ", ".join(f"{item.name} in {item.n_geounits:,}" for item in contradictions)
