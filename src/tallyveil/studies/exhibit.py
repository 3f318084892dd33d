"""A table or figure of a paper, and the results of recomputing it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from tallyveil.errors import ConfigError
from tallyveil.studies.comparison import Comparison
from tallyveil.studies.drawing import Drawing


@dataclass(frozen=True, slots=True)
class StudyInputs:
    """The inputs of an exhibit besides the numbers in the package.

    Attributes:
        data: Folder of public data sets; None if the user gave no folder.
    """

    data: Path | None = None

    def files(self, exhibit: str, names: tuple[str, ...]) -> tuple[Path, ...]:
        """Paths of the files that an exhibit needs.

        Raises:
            MissingDataError: no folder was given, or a file is missing in it.
        """
        if self.data is None:
            raise MissingDataError(
                f"{exhibit} needs public counts ({', '.join(names)}). Give the folder that holds them with --data "
                "DIR."
            )
        paths = tuple(self.data / name for name in names)
        absent = [path for path in paths if not path.is_file()]
        if absent:
            raise MissingDataError(
                f"{exhibit} needs {', '.join(map(str, absent))}, which does not exist. Give the folder that holds it "
                "with --data DIR."
            )
        return paths


class MissingDataError(ConfigError):
    """Public data that an exhibit needs are missing. Other exhibits can still be recomputed."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of recomputing one exhibit.

    Attributes:
        tables: Tables of numbers, by name. The first is the exhibit itself.
        comparisons: The paper's printed numbers, each with ours.
        drawings: Plots, by file name.
        notes: What a reader must know to understand the numbers.
    """

    tables: Mapping[str, pl.DataFrame]
    comparisons: tuple[Comparison, ...] = ()
    drawings: Mapping[str, Drawing] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A table or figure that can be recomputed.

    Attributes:
        name: "table-1", "figure-7", or a word of our own for an exhibit that is not in the paper.
        title: What it shows.
        recompute: Function that computes the results.
    """

    name: str
    title: str
    recompute: Callable[[StudyInputs], Findings]
