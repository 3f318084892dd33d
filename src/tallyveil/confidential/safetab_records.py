"""Reading SafeTab's person records: from text to compact arrays, with errors that show no record."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.confidential.histogram import REDACTED
from tallyveil.errors import GeographyError, SchemaError, TallyveilError
from tallyveil.kernels.safetab_groups import order_by_region
from tallyveil.safetab.ages import cells_by_age
from tallyveil.safetab.config import SafetabConfig
from tallyveil.safetab.files import PERSONS, FileFormat, collect_file, find_file, scan_file
from tallyveil.safetab.iterations import IterationFiles
from tallyveil.safetab.problems import raise_all
from tallyveil.safetab.regions import Regions

logger = logging.getLogger(__name__)

RACE_COLUMNS = tuple(f"QRACE{i}" for i in range(1, 9))
BLOCK_COLUMNS = tuple(PERSONS.columns[3:7])
AGES_23 = 23
_CODED = frozenset({"block", *RACE_COLUMNS, "QSPAN"})


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
    numbers = [pl.col("QAGE").cast(pl.Int16).alias("age"), pl.col("QSEX").cast(pl.Int8).alias("sex")]
    found: dict[str, ConfidentialPersons] = {}
    for run, part in read_coded_records(folder, PERSONS, numbers, config, files, regions).items():
        cells = (cells_by_age()[part.values["age"]] + AGES_23 * (part.values["sex"] - 1)).astype(np.int8)
        found[run] = ConfidentialPersons(run, part.block, part.codes, part.ethnicity, cells)
    logger.info("person records read and valid")
    return found


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class CodedRecords:
    """Records of one run in the order of their blocks. Confidential.

    Attributes:
        block, codes, ethnicity: As in `ConfidentialPersons`.
        values: Further columns by name.
    """

    block: NDArray[np.int32]
    codes: NDArray[np.int16]
    ethnicity: NDArray[np.int16]
    values: Mapping[str, NDArray[Any]]

    def __repr__(self) -> str:
        return f"CodedRecords(records={REDACTED})"


def read_coded_records(
    folder: Path,
    form: FileFormat,
    numbers: Sequence[pl.Expr],
    config: SafetabConfig,
    files: IterationFiles,
    regions: Mapping[str, Regions],
) -> dict[str, CodedRecords]:
    """Read and check records that have blocks, race codes and an ethnicity code; raises as `read_persons`.

    Args:
        folder: Holds the file.
        form: Its format.
        numbers: Further columns wanted, as numbers.
        config, files, regions: As in `read_persons`.
    """
    path = find_file(folder, form)
    frame = scan_file(path, form)
    _check_formats(path, form, frame, config)
    wanted = sorted({state for run in config.runs for state in config.states_of(run)})
    compact = collect_file(_compact(frame, numbers, config, wanted), path)
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
    blocks = compact["block"].to_numpy()
    further = {name: compact[name].to_numpy() for name in compact.columns if name not in _CODED}
    found: dict[str, CodedRecords] = {}
    lost = False
    for run in config.runs:
        own = np.isin(blocks // 10**13, [int(state) for state in config.states_of(run)])
        places = _places(regions[run].blocks, blocks[own])
        lost |= bool((places < 0).any())
        order = _order(places, len(regions[run].blocks))
        values = {name: column[own][order] for name, column in further.items()}
        found[run] = CodedRecords(places[order], codes[own][order], position[spans[own]][order], values)
    if lost:
        problems.append(
            GeographyError(
                f"{path}: records lie in blocks that are not in the geography file GRF-C. Add every block there, or "
                f"correct the records; an anti-join on {', '.join(BLOCK_COLUMNS)} finds them.",
                code="safetab-person-block",
            )
        )
    raise_all(problems, f"the {form.stem}")
    return found


def _check_formats(path: Path, form: FileFormat, frame: pl.LazyFrame, config: SafetabConfig) -> None:
    """Phase 1, and the rules that take several columns; one pass that keeps a yes or no each."""
    breaks = {
        rule.name: (~pl.col(rule.name).str.contains(rule.pattern)).fill_null(value=True).any()
        for rule in form.rules
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
        for rule in form.rules
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
    raise_all(problems, f"the {form.stem}")


def _compact(
    frame: pl.LazyFrame, numbers: Sequence[pl.Expr], config: SafetabConfig, states: list[str]
) -> pl.LazyFrame:
    """Numbers of the people in the states wanted; no code is 0."""
    races = [
        pl.col(name).replace("Null", "0").cast(pl.Int16) for name in RACE_COLUMNS[: config.max_race_codes]
    ]
    return frame.filter(pl.col(BLOCK_COLUMNS[0]).is_in(states)).select(
        pl.concat_str(*BLOCK_COLUMNS).cast(pl.Int64).alias("block"),
        *numbers,
        *races,
        pl.col("QSPAN").cast(pl.Int16),
    )


def _places(blocks: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int32]:
    """Position of each block wanted among ascending blocks, -1: not there."""
    place = np.minimum(np.searchsorted(blocks, wanted), len(blocks) - 1)
    return np.where(blocks[place] == wanted, place, -1).astype(np.int32)


def _order(places: NDArray[np.int32], n_blocks: int) -> NDArray[np.int32]:
    """Records by block, those of no block left out."""
    start, order = np.zeros(n_blocks + 1, np.int64), np.empty(len(places), np.int32)
    order_by_region(places, n_blocks, start, order)
    return order[: int(start[-1])]
