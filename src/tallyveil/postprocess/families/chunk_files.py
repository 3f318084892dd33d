"""Results of chunks of work as files, for executors whose work is done in other processes.

A chunk may also write files of the release, such as noisy measurements. In the run's own process they go to the release
folder at once. Another process puts them beside its result, and the run's own process moves them into the release.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tallyveil.estimation.solution import EstimateStatus, RoundingMethod
from tallyveil.postprocess.families.chunks import ChunkOutcome, Span
from tallyveil.postprocess.families.unsolved import UNSOLVED
from tallyveil.runs.executor import Chunks
from tallyveil.storage.archives import Archived, extract_files, read_archive, write_archive
from tallyveil.storage.json_files import JsonObject

Result = TypeVar("Result")
Progress = tuple[int, int]
"""Number of a chunk, and how much of its stage it was."""


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

    def writing(self, archived: Callable[[Result], tuple[int, Archived]]) -> Callable[[Result, Path], None]:
        """A function that writes a result, together with the files of its chunk.

        Args:
            archived: The number of a result's chunk, and the result as an archive holds it.
        """

        def write(result: Result, path: Path) -> None:
            number, content = archived(result)
            files = None if self.staged is None else self.root(number)
            write_archive(path, *content, files=files)
            if files is not None:
                shutil.rmtree(
                    files, ignore_errors=True
                )  # its content is in the archive; what stays harms nothing

        return write

    def reading(self, result: Callable[[Archived], Result]) -> Callable[[Path], Result]:
        """A function that reads a result, and writes the files of its chunk into the release folder."""

        def read(path: Path) -> Result:
            if self.release is not None:
                extract_files(path, self.release)
            return result(read_archive(path))

        return read

    def written(self, address: JsonObject, work: Callable[[int], Progress]) -> Chunks[Progress]:
        """Chunks that write files of the release.

        Args:
            address: Of the work.
            work: Writes the files of a chunk below `root`; returns its number and how much it did, for progress.
        """
        return Chunks(address, work, self.writing(_archived_progress), self.reading(_progress_of))


def _archived_progress(done: Progress) -> tuple[int, Archived]:
    return done[0], Archived({"done": list(done)}, {})


def _progress_of(content: Archived) -> Progress:
    number, finished = content.record["done"]
    return number, finished


def archived_outcome(outcome: ChunkOutcome) -> tuple[int, Archived]:
    """The outcome of a chunk of families as an archive holds it."""
    span = outcome.span
    statuses, methods = list(EstimateStatus), list(RoundingMethod)
    record = {
        "span": [span.number, span.first, span.last, span.unknowns],
        "statuses": [statuses.index(one) for one in outcome.statuses],
        "methods": [methods.index(one) for one in outcome.methods],
        "widened": outcome.widened,
        "residual_persons": outcome.residual_persons,
    }
    arrays = {"lengths": outcome.lengths, "cells": outcome.cells, "counts": outcome.counts}
    return span.number, Archived(record, arrays)


def outcome_of(content: Archived) -> ChunkOutcome:
    """The outcome that `archived_outcome` wrote."""
    record, statuses, methods = content.record, list(EstimateStatus), list(RoundingMethod)
    return ChunkOutcome(
        span=Span(*record["span"]),
        lengths=content.arrays["lengths"],
        cells=content.arrays["cells"],
        counts=content.arrays["counts"],
        statuses=tuple(statuses[one] for one in record["statuses"]),
        methods=tuple(methods[one] for one in record["methods"]),
        widened=record["widened"],
        residual_persons=record["residual_persons"],
    )
