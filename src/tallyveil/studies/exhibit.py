"""A table or figure of a paper, and what recomputing it gives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from tallyveil.errors import ConfigError
from tallyveil.studies.comparison import Comparison
from tallyveil.studies.drawing import Drawing


@dataclass(frozen=True, slots=True)
class StudyInputs:
    """What an exhibit may read besides the numbers that come with the package.

    Attributes:
        data: Folder of public data sets, or None where there is none.
    """

    data: Path | None = None

    def files(self, exhibit: str, names: tuple[str, ...]) -> tuple[Path, ...]:
        """Paths of the files an exhibit needs.

        Raises:
            MissingDataError: there is no folder, or it lacks a file.
        """
        if self.data is None:
            raise MissingDataError(
                f"{exhibit} needs public counts ({', '.join(names)}). Give their folder with --data DIR."
            )
        paths = tuple(self.data / name for name in names)
        absent = [path for path in paths if not path.is_file()]
        if absent:
            raise MissingDataError(
                f"{exhibit} needs {', '.join(map(str, absent))}, which is not there. "
                "Give the folder that holds it with --data DIR."
            )
        return paths


class MissingDataError(ConfigError):
    """An exhibit's public data are not at hand; the others can go on."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What recomputing one exhibit gave.

    Attributes:
        tables: Numbers by name; the first is the exhibit's own.
        comparisons: The paper's printed numbers beside ours.
        drawings: What to plot, by file name.
        notes: What a reader must know to read the numbers.
    """

    tables: Mapping[str, pl.DataFrame]
    comparisons: tuple[Comparison, ...] = ()
    drawings: Mapping[str, Drawing] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A table or figure that can be recomputed.

    Attributes:
        name: "table-1", "figure-7", or a word of ours for what goes beyond the paper.
        title: What it shows.
        recompute: Does the work.
    """

    name: str
    title: str
    recompute: Callable[[StudyInputs], Findings]
