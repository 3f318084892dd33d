"""Results of chunks of work as files, for executors whose work is done in other processes.

A chunk may also write files of the release, such as noisy measurements. In the run's own process they go to
the release folder at once. Another process puts them beside its result, and the run's own process moves them
into the release. Families that no solver can certify are kept in files too, so that the cause can be found.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tallyveil.errors import SolverError
from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.problem import FamilyProblem, FamilySolution, problem_to_mapping
from tallyveil.runs.executor import Chunks
from tallyveil.storage.archives import archived, content_of, extract_files, read_archive, write_archive
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.write import write_json

UNSOLVED = "unsolved"


def estimate_or_keep(problem: FamilyProblem, folder: Path | None) -> FamilySolution:
    """Estimate a family. If its estimate cannot be certified, the family is first written to `folder`.

    Raises:
        ConstraintError: the family has no solution.
        SolverError: the answer could not be certified; names the file.
    Privacy: the file holds noisy answers, published counts and public bounds.
    """
    try:
        return estimate_family(problem)
    except SolverError as error:
        # Where no folder is given, the error alone says what happened.
        if folder is None:
            raise
        # Names of geolevels and geocodes are turned into file names that stay in this folder.
        path = inside(folder, file_name(problem.geolevel), f"{file_name(problem.geocode)}.json")
        write_json(path, problem_to_mapping(problem))
        raise SolverError(
            f"{error}. The family of this estimation problem is kept in {path}, which holds noisy answers and "
            "published counts and no true count; tallyveil.estimation.problem reads it. All finished stages are "
            "kept as well. The same command tries again with the same noise and spends nothing.",
            code="family-unsolved",
        ) from error


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ChunkFolders:
    """Where the chunks of a run write.

    Attributes:
        release: The release folder; None where nothing is written.
        staged: Where this process keeps the files of a release for another, which has the release folder; None where
            this process writes them itself.
        tags: Metadata of every file of the release.
        inputs: Where the run's own process shares what chunks read; None in that process.
    """

    release: Path | None
    staged: Path | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    inputs: Path | None = None

    @property
    def unsolved(self) -> Path | None:
        """Folder of families that could not be certified; None to write none."""
        return None if self.release is None else self.release / UNSOLVED

    @property
    def finished(self) -> Path:
        """The release folder, for work that reads or writes files of it."""
        if self.release is None:
            raise ValueError("this work needs files of a release, and there is no folder of one")
        return self.release

    def shared(self, name: str) -> Path:
        """A file that the run's own process shares (`Executor.share`)."""
        if self.inputs is None:
            raise ValueError("the run's own process holds what it shares")
        return self.inputs / name

    def root(self, number: int) -> Path:
        """The folder into which chunk `number` writes files of the release."""
        return self.finished if self.staged is None else self.staged / str(number)

    def chunks(
        self,
        address: JsonObject,
        kind: type[Result],
        work: Callable[[int], Result],
        *,
        at_once: int | None = None,
    ) -> Chunks[Result]:
        """The chunks of an address, whose results can be written to archives, with the files of the release.

        Args:
            address, work, at_once: As in `Chunks`.
            kind: Type of the results, as `content_of` takes it.
        """

        def write(number: int, result: Result, path: Path) -> None:
            files = None if self.staged is None else self.root(number)
            write_archive(path, *archived(result), files=files)
            if files is not None:
                # Its content is in the archive; what stays harms nothing.
                shutil.rmtree(files, ignore_errors=True)

        def read(path: Path) -> Result:
            if self.release is not None:
                extract_files(path, self.release)
            return content_of(kind, read_archive(path))

        return Chunks(address, work, write, read, at_once)
