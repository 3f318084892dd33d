"""Checks between the published files of several releases of a programme, which no release can make by itself.

Files of people and of units are made from different measurements. If nothing ties them together, a block may
have people and no occupied unit, or other householders in one file than in the other. Such blocks are counted
from the published counts alone. Releases can be made to agree so that some kinds of contradictions cannot
occur. The other kinds are only counted: the numbers tell how far the files are apart.

Four schema presets say something of households: `pl94-persons` (how many people live in them), `pl94-units`
(how many units are occupied), `dhc-persons` (who lives in them) and `dhc-units` (what kinds of households
there are). What they say of every finest geounit is added up into numbers that can be compared.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tallyveil.arrays import Bools, Integers
from tallyveil.files.geography import GEOGRAPHY, read_geography
from tallyveil.files.histograms import histogram_path, read_histogram
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import require_unchanged
from tallyveil.schema.counts import (
    ENTRIES_AT_ONCE,
    PublicCounts,
    TripletSum,
    entries_of_rows,
    row_ranges,
    sum_triplets,
    sums_between,
)
from tallyveil.schema.household_types import LARGEST_SIZE, Couple, MinorAges, household_types
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema, schema_from_mapping
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.read import read_published

HOUSEHOLDERS: Final = (0, 1)
"""Codes of `relgq`: a householder who lives alone, and one who lives with others."""

PARTNERS: Final = (2, 4, 3, 5)
"""The code of `relgq` of the householder's spouse or partner, by `Couple`."""

CHILDREN: Final = (6, 7, 8)
"""Codes of `relgq` of own children: biological, adopted and step."""

OTHER_GENERATIONS: Final = (10, 11, 12)
"""Codes of `relgq` of parents, grandchildren and parents-in-law."""

HOUSEHOLD_MEMBERS: Final = 18
"""Codes of `relgq` below this are of people in households."""

TENURES: Final = 4
"""Codes of `tenvacgq` below this are of occupied units."""

HOUSING_UNITS: Final = 11
"""Codes of `tenvacgq` below this are of housing units."""

ADULT: Final = 18
"""First age of adults."""

OLDER: Final = (60, 65, 75)
"""The level of `oldest` with code k + 1 begins at `OLDER[k]`."""

HOUSEHOLDER_AGES: Final = np.array([25, 35, 45, 55, 60, 65, 75, 85])
"""First age of each age group of householders but the first."""

TWO_OR_MORE_RACES: Final = 6
"""Race of a householder for every combination of races; smaller codes of `cenrace` are of one race."""

KINDS: Final = 2 * 2 * (HOUSEHOLDER_AGES.size + 1) * 2 * (TWO_OR_MORE_RACES + 1)
"""Number of kinds of householders: living alone or with others, by sex, age group, Hispanic origin and race."""


@dataclass(frozen=True, slots=True, eq=False)
class HouseholdPeople:
    """People in households by geounit, as `dhc-persons` counts them. Arrays have the shape (G,).

    Attributes:
        members: All of them.
        householders: Householders.
        alone: Householders who live alone.
        partners: Spouses and unmarried partners by `Couple`, shape (G, 4).
        minors: People under 18.
        own_minors: Children of the householder under 18.
        children: Children of the householder of any age.
        generations: Parents, parents-in-law and grandchildren of the householder.
        older: People of 60, 65 and 75 years or more, shape (G, 3).
        kinds: Householders by kind, as a number below `KINDS`.
    """

    members: Integers
    householders: Integers
    alone: Integers
    partners: Integers
    minors: Integers
    own_minors: Integers
    children: Integers
    generations: Integers
    older: Integers
    kinds: PublicCounts


@dataclass(frozen=True, slots=True, eq=False)
class Households:
    """Households and vacant units by geounit, as `dhc-units` counts them. Arrays have the shape (G,).

    Attributes:
        occupied: Occupied units, one for each household.
        vacant: Vacant units.
        alone: Households of size 1.
        open_ended: Households of the largest size, which is open.
        least_members: The least number of people in all households.
        coupled: Households by `Couple`, without those that no couple leads, shape (G, 4).
        with_minors: Households with somebody under 18.
        with_own: Households with own children under 18.
        least_own: The least number of these children.
        multigenerational: Households of three generations.
        older: Households whose oldest person has 60, 65 or 75 years or more, shape (G, 3).
        kinds: Householders by kind, as a number below `KINDS`.
    """

    occupied: Integers
    vacant: Integers
    alone: Integers
    open_ended: Integers
    least_members: Integers
    coupled: Integers
    with_minors: Integers
    with_own: Integers
    least_own: Integers
    multigenerational: Integers
    older: Integers
    kinds: PublicCounts


@dataclass(frozen=True, slots=True, eq=False)
class RedistrictingPeople:
    """People in households by geounit, as `pl94-persons` counts them, shape (G,)."""

    members: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Occupied and vacant units by geounit, as `pl94-units` counts them, shape (G,)."""

    occupied: Integers
    vacant: Integers


def redistricting_people(schema: Schema, counts: PublicCounts) -> RedistrictingPeople:
    """People in households, from counts of schema `pl94-persons`."""
    place = schema.attribute_names.index("hhgq")
    household = schema.attributes[place].code("household")
    # One column, because `_added_up` sums any number of measures.
    sums = _added_up(schema, counts, lambda codes: (codes[:, place] == household)[:, None])
    return RedistrictingPeople(sums[:, 0])


def units(schema: Schema, counts: PublicCounts) -> Units:
    """Occupied and vacant units, from counts of schema `pl94-units`."""
    wanted = np.array([schema.attributes[0].code(label) for label in ("occupied", "vacant")])
    sums = _added_up(schema, counts, lambda codes: codes == wanted)
    return Units(sums[:, 0], sums[:, 1])


def household_people(schema: Schema, counts: PublicCounts) -> HouseholdPeople:
    """What counts of schema `dhc-persons` say of people in households."""
    role, age = (_axis(schema, name) for name in ("relgq", "age"))
    relation, year = np.ogrid[: schema.attributes[role].size, : schema.attributes[age].size]
    # Codes of relgq count household members first, so that one comparison finds them.
    inside, child = relation < HOUSEHOLD_MEMBERS, np.isin(relation, CHILDREN)
    measures = (
        inside,
        np.isin(relation, HOUSEHOLDERS),
        relation == HOUSEHOLDERS[0],
        inside & (year < ADULT),
        child & (year < ADULT),
        child,
        np.isin(relation, OTHER_GENERATIONS),
        *(relation == partner for partner in PARTNERS),
        *(inside & (year >= first) for first in OLDER),
    )
    # A table by relation and age: each record then looks its measures up at once.
    table = np.stack(np.broadcast_arrays(*measures), axis=2)
    sums = _added_up(schema, counts, lambda codes: table[codes[:, role], codes[:, age]])
    members, householders, alone, minors, own_minors, children, generations = sums[:, :7].T
    return HouseholdPeople(
        members,
        householders,
        alone,
        sums[:, 7:11],
        minors,
        own_minors,
        children,
        generations,
        sums[:, 11:],
        _kinds(schema, counts, _kinds_of_people),
    )


def households(schema: Schema, counts: PublicCounts) -> Households:
    """What counts of schema `dhc-units` say of households and vacant units."""
    status, home, oldest = (_axis(schema, name) for name in ("tenvacgq", "household", "oldest"))
    n_types, types = len(household_types()), _measures_of_types()
    # Units without a household have the last code, and no measure.
    types = np.concatenate([types, np.zeros((1, types.shape[1]), dtype=np.int64)])

    def measures(codes: Integers) -> Integers:
        vacant = (codes[:, status] >= TENURES) & (codes[:, status] < HOUSING_UNITS)
        led = codes[:, home] < n_types
        older = led[:, None] & (codes[:, oldest][:, None] > np.arange(len(OLDER)))
        # A type's measures hold for one household; the sum below multiplies them by the number of households.
        return np.concatenate([vacant[:, None], older, types[codes[:, home]]], axis=1).astype(np.int64)

    sums = _added_up(schema, counts, measures)
    vacant, older = sums[:, 0], sums[:, 1:4]
    occupied, alone, open_ended, least, minors, own, least_own, multigenerational = sums[:, 4:12].T
    return Households(
        occupied,
        vacant,
        alone,
        open_ended,
        least,
        sums[:, 12:],
        minors,
        own,
        least_own,
        multigenerational,
        older,
        _kinds(schema, counts, _kinds_of_units),
    )


def _measures_of_types() -> Integers:
    """What one household of each type adds to the numbers of `Households`, shape (types, 12)."""
    return np.array(
        [
            [
                1,
                household.size == 1,
                household.size == LARGEST_SIZE,
                household.size,
                household.under_18,
                household.own_children > 0,
                # Own children of both age groups are two at least.
                (household.own_children > 0) + (household.own_children is MinorAges.BOTH),
                household.multigenerational,
                *(household.couple == couple for couple in range(Couple.NO_PARTNER)),
            ]
            for household in household_types()
        ],
        dtype=np.int64,
    )


def _added_up(
    schema: Schema, counts: PublicCounts, measures: Callable[[Integers], Integers | Bools]
) -> Integers:
    """Sums over the records of each geounit, shape (G, measures).

    Args:
        schema: The universe of the counts.
        counts: Counts of the finest geolevel.
        measures: From level codes, shape (n, attributes), what one record adds to each sum, shape (n, measures).
    """
    sums = []
    # A sixteenth of the entries, because each becomes a row of some sixteen measures.
    for start, stop in row_ranges(counts.offsets, ENTRIES_AT_ONCE // 16):
        _, cells, records = counts.rows(start, stop)
        each = measures(schema.decode(cells)) * records[:, None]
        sums.append(sums_between(counts.offsets[start : stop + 1] - counts.offsets[start], each))
    return np.concatenate(sums)


def _kinds(
    schema: Schema, counts: PublicCounts, kinds: Callable[[Schema, Integers], tuple[Bools, Integers]]
) -> PublicCounts:
    """Householders by kind."""
    total = TripletSum(counts.n_geounits, KINDS)
    for start, stop in row_ranges(counts.offsets):
        rows, cells, records = counts.rows(start, stop)
        inside, kind = kinds(schema, schema.decode(cells))
        total.add(start + rows[inside], kind, records[inside])
    return PublicCounts(counts.geolevel, *total.finish())


def _kinds_of_people(schema: Schema, codes: Integers) -> tuple[Bools, Integers]:
    role = codes[:, _axis(schema, "relgq")]
    inside: Bools = np.isin(role, HOUSEHOLDERS)
    sex, age, origin, race = (
        codes[inside, _axis(schema, name)] for name in ("sex", "age", "hispanic", "cenrace")
    )
    # The group is the number of limits that the age has reached.
    group = np.searchsorted(HOUSEHOLDER_AGES, age, "right")
    alone = role[inside] == HOUSEHOLDERS[0]
    # All sets of two races and more are one kind.
    return inside, _kind(alone, sex, group, origin, np.minimum(race, TWO_OR_MORE_RACES))


def _kinds_of_units(schema: Schema, codes: Integers) -> tuple[Bools, Integers]:
    inside: Bools = codes[:, _axis(schema, "tenvacgq")] < TENURES
    size = np.array([household.size for household in household_types()])
    names = ("householder_sex", "householder_age", "householder_hispanic", "householder_race")
    alone = size[codes[inside, _axis(schema, "household")]] == 1
    return inside, _kind(alone, *(codes[inside, _axis(schema, name)] for name in names))


def _kind(alone: Bools, sex: Integers, age: Integers, origin: Integers, race: Integers) -> Integers:
    """The number of a kind of householder."""
    sizes = (2, 2, HOUSEHOLDER_AGES.size + 1, 2, TWO_OR_MORE_RACES + 1)
    # The last number varies fastest, and both files number kinds here, so that equal kinds have equal numbers.
    return np.ravel_multi_index((alone.astype(np.int64), sex, age, origin, race), sizes).astype(np.int64)


def _axis(schema: Schema, name: str) -> int:
    return schema.attribute_names.index(name)


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
    offsets = np.concatenate([[0], np.cumsum(np.diff(counts.offsets)[order])])
    entries = entries_of_rows(counts.offsets, order)
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
