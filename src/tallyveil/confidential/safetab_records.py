"""Reading SafeTab's person records: from text to compact arrays, with errors that show no record."""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.confidential.histogram import REDACTED
from tallyveil.errors import GeographyError, SchemaError, TallyveilError
from tallyveil.kernels.safetab_groups import order_by_region
from tallyveil.safetab.ages import cells_by_age
from tallyveil.safetab.config import SafetabConfig
from tallyveil.safetab.files import PERSONS, collect_file, find_file, scan_file
from tallyveil.safetab.iterations import IterationFiles
from tallyveil.safetab.problems import raise_all
from tallyveil.safetab.regions import Regions

logger = logging.getLogger(__name__)

RACE_COLUMNS = tuple(f"QRACE{i}" for i in range(1, 9))
BLOCK_COLUMNS = tuple(PERSONS.columns[3:7])
AGES_23 = 23


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ConfidentialPersons:
    """The people of one run, in the order of their blocks. Confidential.

    Attributes:
        run: "US" or "PR".
        block: Position of each person's block; int32, ascending.
        codes: Positions of race codes, -1 after the last; int16, shape (persons, max_race_codes).
        ethnicity: Position of the ethnicity code; int16.
        cells: Sex by age, 46 cells; int8.
    """

    run: str
    block: NDArray[np.int32]
    codes: NDArray[np.int16]
    ethnicity: NDArray[np.int16]
    cells: NDArray[np.int8]

    def __repr__(self) -> str:
        return f"ConfidentialPersons(run={self.run!r}, records={REDACTED})"

    def digest(self) -> bytes:
        """SHA-256 of the records, in their order within each block."""
        digest = hashlib.sha256(self.run.encode())
        for array in (self.block, self.codes, self.ethnicity, self.cells):
            digest.update(len(array).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes())
        return digest.digest()


def read_persons(
    folder: Path, config: SafetabConfig, files: IterationFiles, regions: Mapping[str, Regions]
) -> dict[str, ConfidentialPersons]:
    """Read and check the person records of every run (all three phases), in one streaming pass.

    People in states of no run are checked for their format and otherwise left out.

    Args:
        folder: Holds person-records as `.txt` or `.parquet`.
        config: States, and how many race codes are read.
        files: Known codes.
        regions: Blocks of each run.
    Raises:
        ConfigError, StoreError: header or file.
        SchemaError, GeographyError: rules that records break, all of them at once.
    Privacy: messages name the file, columns and rules only; never a value, a row or a number of records.
    """
    path = find_file(folder, PERSONS)
    frame = scan_file(path, PERSONS)
    _check_formats(path, frame, config)
    wanted = sorted({state for run in config.runs for state in config.states_of(run)})
    compact = collect_file(_compact(frame, config, wanted), path)
    position = np.full(10_000, -1, np.int16)
    position[[int(code) for code in files.codes]] = np.arange(len(files.codes), dtype=np.int16)
    races = [compact[name].to_numpy() for name in RACE_COLUMNS[: config.max_race_codes]]
    spans = compact["QSPAN"].to_numpy()
    problems: list[TallyveilError] = []
    columns = [*zip(RACE_COLUMNS, races, strict=False), ("QSPAN", spans)]
    unknown = [name for name, values in columns if bool((position[values[values > 0]] < 0).any())]
    if unknown:
        problems.append(
            SchemaError(
                f"{path}: column(s) {', '.join(unknown)} have codes that are not in the race and ethnicity codes file. "
                "Add them there, or correct the records; an anti-join of the two files finds them.",
                code="safetab-person-code",
            )
        )
    codes = np.stack([np.where(own > 0, position[own], -1).astype(np.int16) for own in races], axis=1)
    blocks, ages, sexes = (compact[name].to_numpy() for name in ("block", "age", "sex"))
    cells = (cells_by_age()[ages] + AGES_23 * (sexes - 1)).astype(np.int8)
    found: dict[str, ConfidentialPersons] = {}
    lost = False
    for run in config.runs:
        own = np.isin(blocks // 10**13, [int(state) for state in config.states_of(run)])
        places = _places(regions[run].blocks, blocks[own])
        lost |= bool((places < 0).any())
        parts = codes[own], position[spans[own]], cells[own]
        found[run] = _sorted(run, places, len(regions[run].blocks), *parts)
    if lost:
        problems.append(
            GeographyError(
                f"{path}: records lie in blocks that are not in the geography file GRF-C. Add every block there, or "
                f"correct the records; an anti-join on {', '.join(BLOCK_COLUMNS)} finds them.",
                code="safetab-person-block",
            )
        )
    raise_all(problems, "the person records")
    logger.info("person records read and valid")
    return found


def _check_formats(path: Path, frame: pl.LazyFrame, config: SafetabConfig) -> None:
    """Phase 1, and the rules that take several columns; one pass that keeps a yes or no each."""
    breaks = {
        rule.name: (~pl.col(rule.name).str.contains(rule.pattern)).fill_null(value=True).any()
        for rule in PERSONS.rules
    }
    later = RACE_COLUMNS[config.max_race_codes :]
    null = {name: pl.col(name) == "Null" for name in RACE_COLUMNS}
    gaps = [null[a] & ~null[b] for a, b in pairwise(RACE_COLUMNS)]
    checks = [
        *(check.alias(name) for name, check in breaks.items()),
        pl.any_horizontal(gaps).any().alias("gap"),
        (pl.any_horizontal(~null[name] for name in later).any() if later else pl.lit(value=False)).alias(
            "later"
        ),
        pl.len().alias("rows"),
    ]
    said = collect_file(frame.select(checks), path).row(0, named=True)
    if not said["rows"]:
        raise SchemaError(f"{path} has no rows. Give a file with at least one.", code="safetab-empty")
    problems: list[TallyveilError] = [
        SchemaError(
            f"{path}: column {rule.name} has values that are not {rule.wanted}. Correct them (filter the column for "
            "values that do not match the rule to find them).",
            code="safetab-person-values",
        )
        for rule in PERSONS.rules
        if said[rule.name]
    ]
    if said["gap"] and not problems:
        problems.append(
            SchemaError(
                f"{path}: some records have a race code after a Null in QRACE2 to QRACE8. Move their codes together.",
                code="safetab-null-order",
            )
        )
    if said["later"] and not problems:
        problems.append(
            SchemaError(
                f"{path}: some records have codes in {', '.join(later)}, which max_race_codes = "
                f"{config.max_race_codes} leaves unread. Raise max_race_codes (it sets the stability, so the noise), "
                "or take the codes out.",
                code="safetab-extra-codes",
            )
        )
    raise_all(problems, "the person records")


def _compact(frame: pl.LazyFrame, config: SafetabConfig, states: list[str]) -> pl.LazyFrame:
    """Numbers of the people in the states wanted; no code is 0."""
    races = [
        pl.col(name).replace("Null", "0").cast(pl.Int16) for name in RACE_COLUMNS[: config.max_race_codes]
    ]
    return frame.filter(pl.col(BLOCK_COLUMNS[0]).is_in(states)).select(
        pl.concat_str(*BLOCK_COLUMNS).cast(pl.Int64).alias("block"),
        pl.col("QAGE").cast(pl.Int16).alias("age"),
        pl.col("QSEX").cast(pl.Int8).alias("sex"),
        *races,
        pl.col("QSPAN").cast(pl.Int16),
    )


def _places(blocks: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int32]:
    """Position of each block wanted among ascending blocks, -1: not there."""
    place = np.minimum(np.searchsorted(blocks, wanted), len(blocks) - 1)
    return np.where(blocks[place] == wanted, place, -1).astype(np.int32)


def _sorted(
    run: str,
    places: NDArray[np.int32],
    n_blocks: int,
    codes: NDArray[np.int16],
    ethnicity: NDArray[np.int16],
    cells: NDArray[np.int8],
) -> ConfidentialPersons:
    start, order = np.zeros(n_blocks + 1, np.int64), np.empty(len(places), np.int32)
    order_by_region(places, n_blocks, start, order)
    order = order[: int(start[-1])]
    return ConfidentialPersons(run, places[order], codes[order], ethnicity[order], cells[order])
