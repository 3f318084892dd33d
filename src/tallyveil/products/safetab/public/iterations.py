"""Characteristic iterations: their files, and the iterations in which a code counts at one level."""

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.arrays import Int16s
from tallyveil.errors import SchemaError, TallyveilError
from tallyveil.products.safetab.public.files import (
    CODE_TO_ITERATION,
    CODES,
    ETHNICITY_ITERATIONS,
    RACE_ITERATIONS,
    read_file,
)
from tallyveil.products.safetab.public.input_errors import raise_all, some


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
