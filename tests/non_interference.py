"""Jobs on records that differ as much as they may, whose noisy measurements are the same: what others see must agree.

One job of a `World`, the reference, is done as it is. Those after it have other records. Where a mechanism measures, it
is given the counts that the mechanism measured in the reference, with the same noise. The counts that everything else
sees, such as checks, invariants, bounds and digests, are those of its own records. So a file or message that differs
says something of the records that no mechanism has paid for.

The key, which no release shows, is the same in all jobs and is not bound to the records. The name of the run and the
keyed hash of the records are numbers that follow from this key and from the records, and tell nothing without the key;
here they do not depend on the records either.
"""

import io
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tallyveil.accounting.ledger import book
from tallyveil.cli.main import main
from tallyveil.confidential.measure import Measurer
from tallyveil.confidential.sealed_counts import write_sealed_counts
from tallyveil.files.finished import PRIVATE
from tallyveil.noise.key import derive_key, insecure_key
from tallyveil.products.lattice.run import run as lattice_run
from tallyveil.products.safetab.confidential.measure import GroupMeasurer, HouseholdMeasurer
from tallyveil.products.topdown.run import lattice_counts, on_worker
from tallyveil.runs import once
from tallyveil.runs.key_file import RunSecrets

KEY = insecure_key("non-interference")
NOW = "2020-04-01T00:00:00+00:00"
SAID = "said"
"""What all commands of a job said, and their exit codes."""
WRITTEN = "written"
"""Files that a job wrote, in order, with the names that they had before they were complete."""
Command = Sequence[str]


class Stopped(BaseException):
    """Stands for the process ending at once."""


class World:
    """Does jobs in one folder, one after the other, so that no path differs between them.

    Args:
        folder: The folder.
        begin: Writes files that every job begins with.
        patch: For the seams of mechanisms, keys and clocks; undone by whoever gives it.
    """

    def __init__(self, folder: Path, begin: Callable[[Path], object], patch: pytest.MonkeyPatch) -> None:
        self._folder, self._begin = folder / "job", begin
        self._counts: dict[str, list[Any]] = {}
        self._measured: Counter[str] = Counter()
        self._is_reference = True
        self._written: list[str] = []
        self._stop_at: int | None = None
        self._replace_counts(patch)
        _replace_secrets(patch)
        patch.setattr("rich.console.monotonic", lambda: 0.0)  # the clock of progress bars
        patch.setattr(book, "_now", lambda: NOW)
        self._list_writes(patch)

    def job(
        self,
        inputs: Iterable[Callable[[Path], object]],
        commands: Iterable[Command],
        stop_at: int | None = None,
        *,
        is_reference: bool = False,
    ) -> dict[str, bytes]:
        """Do a job in a new folder.

        Args:
            inputs: Write the inputs or change them, one after the other.
            commands: Of the command line, given in the folder of the inputs.
            stop_at: The file before whose completion the first command is stopped; None for none.
            is_reference: Whether later jobs measure what this one does.
        Returns:
            The public files that the job made: their names, rights and bytes; and `SAID` and `WRITTEN`.
        """
        shutil.rmtree(self._folder, ignore_errors=True)
        for write in (self._begin, *inputs):
            write(self._folder)
        before = set(self._folder.rglob("*"))
        self._is_reference = is_reference
        if is_reference:
            self._counts.clear()
        self._measured.clear()
        self._written.clear()
        self._stop_at, said = stop_at, ""
        with working_in(self._folder):
            for command in commands:
                said += f"$ {' '.join(command)}\n{run_command(command)}"
                self._stop_at = None
        paths = sorted(set(self._folder.rglob("*")) - before)
        return {
            SAID: said.encode(),
            WRITTEN: "\n".join(self._written).encode(),
            **{
                f"{path.relative_to(self._folder)} {path.lstat().st_mode:o}": path.read_bytes()
                for path in paths
                if path.is_file() and PRIVATE not in path.parts
            },
        }

    def _replace_counts(self, patch: pytest.MonkeyPatch) -> None:
        """Every place where a mechanism meets true counts."""
        checked = Measurer.__post_init__

        def measurer(measurer: Measurer) -> None:
            checked(measurer)
            object.__setattr__(measurer, "histograms", self._instead("histograms", measurer.histograms))

        patch.setattr(Measurer, "__post_init__", measurer)

        def sealed(folder: Path, run: str, histograms: Any, key: bytes) -> None:
            write_sealed_counts(folder, run, self._instead("sealed histograms", histograms), key)

        patch.setattr(on_worker, "write_sealed_counts", sealed)
        for module, name in (
            (lattice_counts, "noisy_answers"),
            (lattice_run, "release_table"),
            (lattice_run, "restricted_sampler"),
            (lattice_run, "restricted_table"),
        ):
            patch.setattr(module, name, self._on_reference(name, getattr(module, name)))
        for kind, field in ((GroupMeasurer, "counts"), (HouseholdMeasurer, "households")):
            patch.setattr(kind, "measure", self._with_reference(field, kind.measure))

    def _on_reference(self, name: str, mechanism: Callable[..., Any]) -> Callable[..., Any]:
        return lambda counts, *rest: mechanism(self._instead(name, counts), *rest)

    def _with_reference(self, field: str, measure: Callable[..., Any]) -> Callable[..., Any]:
        def act(measurer: Any, *rest: Any) -> Any:
            return measure(
                replace(measurer, **{field: self._instead(field, getattr(measurer, field))}), *rest
            )

        return act

    def _instead(self, mechanism: str, counts: Any) -> Any:
        """The counts that a mechanism measured in the reference, at its n-th call."""
        number = self._measured[mechanism]
        self._measured[mechanism] += 1
        if self._is_reference:
            self._counts.setdefault(mechanism, []).append(counts)
        return self._counts[mechanism][number]

    def _list_writes(self, patch: pytest.MonkeyPatch) -> None:
        """List every public file that gets its name when it is complete, and stop before one of them."""
        rename = os.replace

        def named(source: Any, target: Any, **descriptors: Any) -> None:
            names = [os.path.relpath(name, self._folder) for name in (source, target)]
            if not descriptors and PRIVATE not in Path(names[1]).parts and not names[1].startswith(".."):
                if len(self._written) + 1 == self._stop_at:
                    raise Stopped
                self._written.append(" -> ".join(names))
            rename(source, target, **descriptors)

        patch.setattr(os, "replace", named)


def _replace_secrets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(once, "new_run_key", lambda: KEY)
    patch.setattr(RunSecrets, "noise_key", property(lambda secrets: derive_key(KEY, "noise", secrets.plan)))
    name = property(lambda secrets: derive_key(KEY, "run id", secrets.plan).hex()[:16])
    patch.setattr(RunSecrets, "run_id", name)
    patch.setattr(RunSecrets, "commitment", lambda *_: "c" * 64)


def run_command(command: Command) -> str:
    """Run the command line in this process: what it says, how it ends."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said):
        patch.setattr(sys, "argv", ["tallyveil", *command])
        try:
            main()
        except SystemExit as ended:
            return f"{said.getvalue()}exit code {ended.code}\n"
        except Stopped:
            return f"{said.getvalue()}stopped\n"
    raise AssertionError("the command did not end")


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Make a folder the working folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def differences(first: Mapping[str, bytes], second: Mapping[str, bytes]) -> list[str]:
    """What two jobs made that is not the same, with the first place where it differs."""
    return [
        f"{name}: {_first_place(first.get(name), second.get(name))}"
        for name in sorted(first.keys() | second.keys())
        if first.get(name) != second.get(name)
    ]


def _first_place(one: bytes | None, other: bytes | None) -> str:
    if one is None or other is None:
        return "made by one job alone"
    place = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    return " | ".join(repr(data[max(0, place - 60) : place + 60]) for data in (one, other))
