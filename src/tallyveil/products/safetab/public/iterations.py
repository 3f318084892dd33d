"""Characteristic iterations: their files, the iterations of a code, and how many one record can be in.

That number is the stability of a level. It is exact, and a record that attains it is given.

Problem. A record has at most k race codes and one ethnicity code. Wanted is the largest number of groups of a
region that it can be in.

The files are checked so that a code maps to at most one iteration of each kind. So a record with race codes C
and ethnicity code e is in

    |{combination(c) : c in C}| + [all of C share one Alone iteration] + [e has an ethnicity iteration]

groups of a region.

Steps. If the record is in no Alone iteration, the best C has k codes with distinct combinations. If it is in
the Alone iteration A, C consists of codes of A, and the best C has k of these with distinct combinations. Let
n count distinct combinations, up to k. The maximum over all records is the larger of n(all codes) and 1 +
n(codes of A), over every A; plus one if any code has an ethnicity iteration. All cases are examined, so the
number is exact.

Worked case. k = 2. An Alone iteration has two codes, with different combination iterations. A record with
both codes is in two combination iterations and the Alone iteration: three race groups.

The published formula, h_r max(2, k) + h_e, agrees if the Alone and the combination iterations have the same
codes. If a single Alone iteration contains k different combinations, as in the worked case, it is one too
small and not a bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Int16s
from tallyveil.errors import SchemaError, TallyveilError
from tallyveil.products.safetab.public.files import (
    CODE_TO_ITERATION,
    CODES,
    ETHNICITY_ITERATIONS,
    RACE_ITERATIONS,
    raise_all,
    read_file,
    some,
)


class Membership(IntEnum):
    """How the codes of a record determine whether it is in an iteration."""

    ALONE = 0
    COMBINATION = 1
    ETHNICITY = 2


class Detailing(IntEnum):
    """Where an iteration is tabulated: everywhere; for nation and state as a total only; or below the state only."""

    COMMON = 0
    TOTAL_ONLY = 1
    COARSE_ONLY = 2


@dataclass(frozen=True, slots=True)
class Iteration:
    """One tabulated characteristic iteration (level 1 or 2).

    Attributes:
        code: Four digits.
        name: Name for readers.
        level: 1 for regional, 2 for detailed.
        membership: Race alone, race alone or in combination, or ethnicity.
        detailing: Where it is tabulated, and whether only as a total.
    """

    code: str
    name: str
    level: int
    membership: Membership
    detailing: Detailing

    def tabulated(self, *, nationwide: bool) -> bool:
        """Whether it is tabulated for nation and state (nationwide), or below the state."""
        return self.detailing is not (Detailing.COARSE_ONLY if nationwide else Detailing.TOTAL_ONLY)


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """The iterations of one level that are tabulated nationwide, or below the state, and the codes in them.

    Attributes:
        level: 1 or 2.
        nationwide: True for nation and state, false for sub-state geographies.
        iterations: Iterations with adaptive detail, sorted by code, then total-only iterations, sorted by code.
        n_adaptive: Number of iterations with adaptive detail.
        alone_of, combination_of, ethnicity_of: For each code, the position in `iterations` that it maps to, or -1 for
            none; int16, shape (n_codes,).
    """

    level: int
    nationwide: bool
    iterations: tuple[Iteration, ...]
    n_adaptive: int
    alone_of: Int16s
    combination_of: Int16s
    ethnicity_of: Int16s

    @property
    def codes(self) -> tuple[str, ...]:
        """Iteration codes in order."""
        return tuple(iteration.code for iteration in self.iterations)


@dataclass(frozen=True, slots=True)
class IterationFiles:
    """The four public lists, checked against each other.

    Attributes:
        codes: Race and ethnicity codes, ascending. Records store positions in this list.
        iterations: Tabulated iterations, sorted by code, without level 0.
        mapping: Pairs (code, iteration code) of tabulated iterations.
    """

    codes: tuple[str, ...]
    iterations: tuple[Iteration, ...]
    mapping: tuple[tuple[str, str], ...]

    def view(self, level: int, *, nationwide: bool) -> View:
        """The iterations of a level nationwide, or below the state. There may be none."""
        # Sorted by code already; total-only ones go last, so that adaptive groups are the first columns of a
        # row.
        iterations = [i for i in self.iterations if i.level == level and i.tabulated(nationwide=nationwide)]
        total_only = [i for i in iterations if i.detailing is Detailing.TOTAL_ONLY]
        ordered = [i for i in iterations if i.detailing is not Detailing.TOTAL_ONLY] + total_only
        place = {iteration.code: n for n, iteration in enumerate(ordered)}
        row = {code: n for n, code in enumerate(self.codes)}
        # int16: four digits leave at most 10,000 iterations.
        maps = [np.full(len(self.codes), -1, np.int16) for _ in Membership]
        for code, iteration in self.mapping:
            if iteration in place:
                # At most one iteration of a kind for a code (`_several` has checked it), so nothing is
                # overwritten.
                maps[ordered[place[iteration]].membership][row[code]] = place[iteration]
        # Shared by all geographies of the view, and part of the digest.
        for array in maps:
            array.setflags(write=False)
        return View(level, nationwide, tuple(ordered), len(ordered) - len(total_only), *maps)


def read_iterations(folder: Path) -> IterationFiles:
    """Read and check the four code files (all three phases).

    Raises:
        ConfigError, SchemaError, StoreError: the files break rules.
    """
    codes_path, codes = read_file(folder, CODES)
    race_path, race = read_file(folder, RACE_ITERATIONS)
    ethnicity_path, ethnicity = read_file(folder, ETHNICITY_ITERATIONS)
    mapping_path, mapping = read_file(folder, CODE_TO_ITERATION)
    problems = [
        *_repeated(codes_path, codes, ["RACE_ETH_CODE"]),
        *_repeated(race_path, race, ["ITERATION_CODE"]),
        *_repeated(ethnicity_path, ethnicity, ["ITERATION_CODE"]),
        *_repeated(mapping_path, mapping, ["ITERATION_CODE", "RACE_ETH_CODE"]),
        *_flags(race_path, race),
        *_flags(ethnicity_path, ethnicity),
        *_overlap(race_path, race, ethnicity_path, ethnicity),
        *_unknown(mapping_path, mapping, "RACE_ETH_CODE", codes, codes_path),
        *_unknown(
            mapping_path, mapping, "ITERATION_CODE", pl.concat([race[:, :1], ethnicity[:, :1]]), race_path
        ),
    ]
    raise_all(problems, "the iteration files")
    iterations = (*_iterations(race), *_iterations(ethnicity))
    # Rows of level-0 iterations are valid and are dropped here.
    known = {iteration.code for iteration in iterations}
    pairs = zip(mapping["RACE_ETH_CODE"].to_list(), mapping["ITERATION_CODE"].to_list(), strict=True)
    files = IterationFiles(
        tuple(sorted(codes["RACE_ETH_CODE"].to_list())),
        tuple(sorted(iterations, key=lambda iteration: iteration.code)),
        tuple((code, iteration) for code, iteration in pairs if iteration in known),
    )
    problems = [
        # Only checked once the codes are known to exist.
        *_several(mapping_path, files),
        *_without_codes(mapping_path, files),
        *_same_names(race_path, ethnicity_path, files),
    ]
    raise_all(problems, "the iteration files")
    return files


def _iterations(frame: pl.DataFrame) -> list[Iteration]:
    iterations = []
    # Level 0 is not tabulated.
    for row in frame.filter(pl.col("LEVEL") != "0").iter_rows(named=True):
        membership = Membership.ETHNICITY
        if "ALONE" in row:
            membership = Membership.ALONE if row["ALONE"] == "True" else Membership.COMBINATION
        detailing = Detailing.COMMON
        if row["DETAILED_ONLY"] == "True":
            detailing = Detailing.TOTAL_ONLY
        elif row["COARSE_ONLY"] == "True":
            detailing = Detailing.COARSE_ONLY
        code, name = row["ITERATION_CODE"], row["ITERATION_NAME"]
        iterations.append(Iteration(code, name, int(row["LEVEL"]), membership, detailing))
    return iterations


def _repeated(path: Path, frame: pl.DataFrame, columns: list[str]) -> list[TallyveilError]:
    repeated = frame.filter(frame.select(columns).is_duplicated())
    if repeated.is_empty():
        return []
    values = repeated.select(pl.concat_str(columns, separator="|")).to_series().unique(maintain_order=True)
    return [
        SchemaError(
            f"{path}: {repeated.height} rows repeat {' and '.join(columns)}: {some(values.to_list())}. Keep one row "
            "for each.",
            code="safetab-repeated",
        )
    ]


def _flags(path: Path, frame: pl.DataFrame) -> list[TallyveilError]:
    """Both flags must be Null at level 0 and only there. At other levels they must not both be True."""
    detailed, coarse, level = pl.col("DETAILED_ONLY"), pl.col("COARSE_ONLY"), pl.col("LEVEL")
    nulls = (detailed == "Null").cast(pl.Int8) + (coarse == "Null").cast(pl.Int8)
    wanted = pl.when(level == "0").then(2).otherwise(0)
    # Nulls counted: both at level 0, none elsewhere.
    bad = frame.filter((nulls != wanted) | ((detailed == "True") & (coarse == "True")))
    if bad.is_empty():
        return []
    return [
        SchemaError(
            f"{path}: {bad.height} of {frame.height} iterations have flags that contradict each other: "
            f"{some(bad['ITERATION_CODE'].to_list())}. DETAILED_ONLY and COARSE_ONLY must be Null if LEVEL is 0 and "
            "only then, and they must not both be True. Correct the flags.",
            code="safetab-flags",
        )
    ]


def _overlap(
    race_path: Path, race: pl.DataFrame, ethnicity_path: Path, ethnicity: pl.DataFrame
) -> list[TallyveilError]:
    shared = race.join(ethnicity, on="ITERATION_CODE", how="semi")["ITERATION_CODE"].to_list()
    if not shared:
        return []
    return [
        SchemaError(
            f"{len(shared)} iteration code(s) are both in {race_path} and in {ethnicity_path}: {some(shared)}. Give "
            "each iteration a code of its own.",
            code="safetab-overlap",
        )
    ]


def _unknown(
    path: Path, frame: pl.DataFrame, column: str, known: pl.DataFrame, where: Path
) -> list[TallyveilError]:
    lost = frame.join(known, on=column, how="anti")
    if lost.is_empty():
        return []
    values = lost[column].unique(maintain_order=True).to_list()
    source = "the iteration files" if column == "ITERATION_CODE" else str(where)
    return [
        SchemaError(
            f"{path}: {lost.height} row(s) have a {column} that is not in {source}: {some(values)}. Add it there, or "
            "remove the rows.",
            code="safetab-unknown-code",
        )
    ]


def _without_codes(path: Path, files: IterationFiles) -> list[TallyveilError]:
    """A tabulated iteration has a code. Without one nobody is in it, and its published counts would be noise alone."""
    reached = {iteration for _, iteration in files.mapping}
    empty = [iteration.code for iteration in files.iterations if iteration.code not in reached]
    if not empty:
        return []
    return [
        SchemaError(
            f"{path}: no code maps to {len(empty)} of {len(files.iterations)} iterations: {some(empty)}. Nobody can be "
            "in these iterations, so that their published counts would be noise alone. Add the rows of their codes, or "
            "remove the iterations from their file.",
            code="safetab-iteration-without-codes",
        )
    ]


def _same_names(race_path: Path, ethnicity_path: Path, files: IterationFiles) -> list[TallyveilError]:
    """Names of tabulated iterations differ in more than case and spaces, so that readers can tell them apart."""
    named: dict[str, list[str]] = {}
    for iteration in files.iterations:
        named.setdefault(" ".join(iteration.name.casefold().split()), []).append(iteration.code)
    shared = [codes for codes in named.values() if len(codes) > 1]
    if not shared:
        return []
    return [
        SchemaError(
            f"{race_path} and {ethnicity_path.name}: {len(shared)} name(s) stand for several iterations: "
            f"{some([' and '.join(codes) for codes in shared])}. Readers of the tables could not tell them apart. Give "
            "each iteration a name of its own.",
            code="safetab-iteration-name",
        )
    ]


def _several(path: Path, files: IterationFiles) -> list[TallyveilError]:
    """A code may map to at most one iteration of a kind at a level, nationwide and separately below the state."""
    by_code = {iteration.code: iteration for iteration in files.iterations}
    problems: list[TallyveilError] = []
    for nationwide in (True, False):
        members: dict[tuple[str, int, Membership], list[str]] = {}
        for code, iteration in files.mapping:
            codes = by_code[iteration]
            if codes.tabulated(nationwide=nationwide):
                members.setdefault((code, codes.level, codes.membership), []).append(iteration)
        bad = {key: values for key, values in members.items() if len(values) > 1}
        if bad:
            said = [
                f"{code} -> {', '.join(values)} ({kind.name.lower()}, level {level})"
                for (code, level, kind), values in bad.items()
            ]
            problems.append(
                SchemaError(
                    f"{path}: {len(bad)} code(s) map to several iterations of one kind and level "
                    f"{'at nation and state' if nationwide else 'below the state'}: {some(said)}. Keep one iteration "
                    "for each code.",
                    code="safetab-several-iterations",
                )
            )
    return problems


@dataclass(frozen=True, slots=True)
class Stability:
    """The largest number of groups of one region that a record can be in.

    Attributes:
        groups: The maximum, exact.
        race_codes: Positions of the race codes of a record that attains it.
        ethnicity_code: Position of its ethnicity code.
        total_only: Upper bound on the number of a record's groups that are total-only.
        formula: The published formula, for comparison.
    """

    groups: int
    race_codes: tuple[int, ...]
    ethnicity_code: int
    total_only: int
    formula: int


def stability_of(view: View, max_race_codes: int) -> Stability:
    """The exact stability of a view.

    Args:
        view: Iterations of one level, nationwide or sub-state.
        max_race_codes: Largest number of race codes of a record.
    """
    codes = np.arange(len(view.alone_of))
    groups, chosen = _most(codes, view.alone_of, view.combination_of, max_race_codes)
    # Every record has exactly one ethnicity code, so this adds at most one group.
    ethnic = np.flatnonzero(view.ethnicity_of >= 0)
    # The same search among total-only iterations alone bounds how many of a record's groups can be
    # total-only.
    only = [np.where(m >= view.n_adaptive, m, -1) for m in (view.alone_of, view.combination_of)]
    total_only, _ = _most(codes, only[0], only[1], max_race_codes)
    total_only += int((view.ethnicity_of >= view.n_adaptive).any())
    largest = [int((m >= 0).any()) for m in (view.alone_of, view.ethnicity_of)]
    return Stability(
        groups=groups + int(ethnic.size > 0),
        race_codes=chosen,
        ethnicity_code=int(ethnic[0]) if ethnic.size else 0,
        # The two maxima may be of different records, so this is a bound and need not be attained.
        total_only=min(total_only, groups + int(ethnic.size > 0)),
        formula=largest[0] * max(2, max_race_codes) + largest[1],
    )


def groups_of(view: View, race_codes: Sequence[int], ethnicity_code: int) -> int:
    """Number of groups of one region that a record is in."""
    alone = {int(view.alone_of[code]) for code in race_codes}
    combinations = {int(view.combination_of[code]) for code in race_codes} | (
        alone if len(alone) == 1 else set()
    )
    return len((combinations | {int(view.ethnicity_of[ethnicity_code])}) - {-1})


def common_record(
    views: Sequence[View], stabilities: Sequence[Stability], max_race_codes: int
) -> tuple[tuple[int, ...], int] | None:
    """One record that attains the stability of every view at once, or None if the search finds none.

    With such a record, the sum of the views' stabilities is the largest number of groups of a record in all views
    together. Without one, the sum is an upper bound.
    """
    ethnic = [code for code in range(len(views[0].ethnicity_of)) if _ethnic_everywhere(views, code)]
    ethnicity = ethnic[0] if ethnic else stabilities[0].ethnicity_code
    # Only a few candidates: to search all records would be a set-cover problem. None of them attaining all is
    # safe; the bound is then the sum.
    candidates = [s.race_codes for s in stabilities] + [_distinct_everywhere(views, max_race_codes)]
    for record in candidates:
        attained = [groups_of(view, record, ethnicity) for view in views] if record else []
        if attained == [s.groups for s in stabilities]:
            return tuple(record), ethnicity
    return None


def _most(
    codes: NDArray[np.int64], alone_of: Int16s, combination_of: Int16s, k: int
) -> tuple[int, tuple[int, ...]]:
    """Largest number of race iterations that at most k codes can be in, and such codes."""
    best = _distinct(codes, combination_of, k)
    most = len(best)
    # A record has at least one race code.
    best = best or (0,)
    # Every Alone iteration is tried: its codes may share combinations, so a larger one need not be better.
    for alone in np.unique(alone_of[alone_of >= 0]):
        inside = codes[alone_of == alone]
        chosen = _distinct(inside, combination_of, k)
        if 1 + len(chosen) > most:
            most, best = 1 + len(chosen), chosen or (int(inside[0]),)
    return most, best


def _distinct(codes: NDArray[np.int64], combination_of: Int16s, k: int) -> tuple[int, ...]:
    """Up to k of the codes, with distinct combinations."""
    listed = codes[combination_of[codes] >= 0]
    # The first code of each combination: any k distinct ones are as good as any others.
    _, first = np.unique(combination_of[listed], return_index=True)
    return tuple(int(code) for code in listed[first[:k]])


def _distinct_everywhere(views: Sequence[View], k: int) -> tuple[int, ...]:
    """Up to k codes, taken in order, whose combinations are new in every view."""
    chosen: list[int] = []
    combinations: list[set[int]] = [set() for _ in views]
    for code in range(len(views[0].combination_of)):
        numbers = [int(view.combination_of[code]) for view in views]
        if len(chosen) < k and all(o >= 0 and o not in t for o, t in zip(numbers, combinations, strict=True)):
            chosen.append(code)
            for o, t in zip(numbers, combinations, strict=True):
                t.add(o)
    return tuple(chosen)


def _ethnic_everywhere(views: Sequence[View], code: int) -> bool:
    return all(view.ethnicity_of[code] >= 0 or not (view.ethnicity_of >= 0).any() for view in views)
