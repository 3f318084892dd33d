"""A table or figure of a paper, and the results of recomputing it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import polars as pl

from tallyveil.report.drawing import Drawing
from tallyveil_studies.comparison import Comparison
from tallyveil_studies.own_data import MissingDataError, OwnData


class ReleaseMaker(Protocol):
    """Makes a release as `tallyveil.run` does, which it usually is."""

    def __call__(self, release: Path, out: Path, /, *, insecure_test_key: str) -> object:
        """Make a release, from its file into a folder, with the test key that a text stands for."""


def _no_releases(release_file: Path, _out: Path, *, insecure_test_key: str) -> None:
    # A mistake of the program, not of the user: the command gives every study its maker.
    raise RuntimeError(f"nothing was given to these inputs that could make the release of {release_file}")


@dataclass(frozen=True, slots=True)
class StudyInputs:
    """The inputs of an exhibit besides the numbers in the package.

    Attributes:
        data: Folder of public data sets; None if the user gave no folder.
        own_data: Data of the user's own, which figures show in the place of public data sets; None if there are none.
        make_release: Makes a release of public counts with a test key, on the path of every release. It comes from
            above, because a study cannot reach the rooms that see records.
    """

    data: Path | None = None
    own_data: OwnData | None = None
    make_release: ReleaseMaker = _no_releases

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
        # All missing files are named at once.
        absent = [path for path in paths if not path.is_file()]
        if absent:
            raise MissingDataError(
                f"{exhibit} needs {', '.join(map(str, absent))}, which does not exist. Give the folder that holds it "
                "with --data DIR."
            )
        return paths


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of recomputing one exhibit.

    Attributes:
        tables: Tables of numbers, by name. The first is the exhibit itself.
        comparisons: The paper's printed numbers, each with ours.
        drawings: Plots, by file name.
        notes: What a reader must know to understand the numbers.
        subject: What the data are of, such as a State, if the user can choose them; otherwise empty.
    """

    tables: Mapping[str, pl.DataFrame]
    comparisons: tuple[Comparison, ...] = ()
    drawings: Mapping[str, Drawing] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A table or figure that can be recomputed.

    Attributes:
        name: "table-1", "figure-7", or a word of our own for an exhibit that is not in the paper.
        title: What it shows.
        recompute: Function that computes the results.
        own_table: Table of a user's file of own data that it shows, "counts" or "regressions"; empty if it shows none.
    """

    name: str
    title: str
    recompute: Callable[[StudyInputs], Findings]
    own_table: str = ""

    def heading(self, findings: Findings) -> str:
        """The title with what the data are of."""
        return f"{self.title}, {findings.subject}" if findings.subject else self.title
