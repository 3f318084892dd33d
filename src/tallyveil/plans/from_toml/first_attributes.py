"""Where the attributes of a first release file come from: a codebook, a sample, the records themselves, or flags."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tallyveil.errors import ConfigError
from tallyveil.plans.from_toml.first_levels import (
    FirstAttribute,
    columns_besides,
    numbered,
    read_codebook,
    read_levels,
)
from tallyveil.plans.from_toml.make_first import refuse_records


@dataclass(frozen=True, slots=True)
class AttributesAsked:
    """What flags say of the attributes. At most one of `codebook`, `sample` and `from_records` is given.

    Attributes:
        records: The confidential table.
        codebook: Public table of levels; None without one.
        sample: Table that is not confidential and has every level; None without one.
        from_records: Whether the levels are those that occur in the records.
        wanted: Names of the attributes, in order; empty for all that the codebook, the sample or `ranges` has.
        numbers: Attributes of the codebook whose columns hold whole numbers.
        ranges: Ranges of columns of numbers, by column. They replace what the codebook or the sample says.
        besides: Columns that are no attributes: those of geocodes and of counts.
    """

    records: Path
    codebook: Path | None
    sample: Path | None
    from_records: bool
    wanted: Sequence[str]
    numbers: Sequence[str]
    ranges: Mapping[str, str]
    besides: tuple[str | None, ...]


def first_attributes(asked: AttributesAsked) -> tuple[FirstAttribute, ...]:
    """The attributes of a first release file, in the order in which they are named.

    Args:
        asked: What flags say.
    Raises:
        ConfigError: the codebook or the sample is the confidential table, `numbers` is given without a codebook, an
            attribute has no levels, or the files are not as `read_codebook` and `read_levels` want them.
        SchemaError, StoreError: as `read_codebook` and `read_levels`.
    Privacy: the records are read only with `from_records`. Which values occur there then becomes public.
    """
    for flag, file in (("--codebook", asked.codebook), ("--sample", asked.sample)):
        if file is not None:
            refuse_records(file, asked.records, flag)
    if asked.numbers and asked.codebook is None:
        raise ConfigError(
            "--numbers names attributes of a codebook, which is not given. Give --codebook FILE, or the ranges of each "
            "column of numbers with --ranges or --bands, which need no --numbers.",
            code="bad-flag",
        )
    coded = () if asked.codebook is None else read_codebook(asked.codebook, asked.numbers)
    known = {attribute.name: attribute for attribute in (*coded, *numbered(asked.ranges))}
    names = _names(asked, known)
    known |= {
        attribute.name: attribute for attribute in _read(asked, [name for name in names if name not in known])
    }
    _require_levels(names, known)
    return tuple(known[name] for name in names)


def _names(asked: AttributesAsked, known: Iterable[str]) -> Sequence[str]:
    """Names of the attributes, in order."""
    if asked.wanted:
        return asked.wanted
    if asked.from_records:
        raise ConfigError("--levels-from-records needs --attributes COLUMN,...", code="bad-flag")
    return tuple(known) if asked.sample is None else columns_besides(asked.sample, asked.besides, "sample")


def _read(asked: AttributesAsked, names: Sequence[str]) -> tuple[FirstAttribute, ...]:
    """Attributes with the levels that occur in the sample or, if their owner allows it, in the records."""
    if asked.sample is not None:
        return read_levels(asked.sample, names, "sample")
    return read_levels(asked.records, names, "records", confidential=True) if asked.from_records else ()


def _require_levels(names: Sequence[str], known: Mapping[str, FirstAttribute]) -> None:
    lacking = [name for name in names if name not in known] if names else ["every attribute"]
    if lacking:
        raise ConfigError(
            f"nothing says which levels {', '.join(lacking)} has. Give --codebook FILE, --sample FILE, --ranges or "
            "--bands. Levels are not guessed from confidential records.",
            code="bad-flag",
        )
