"""A product of two files, small enough to be killed at every step, and what ends a process at a step."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tallyveil.accounting.events import DiscreteGaussian, Neighbours
from tallyveil.accounting.ledger.book import Spend
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.files.manifest import ReleaseKind
from tallyveil.noise.key import insecure_key
from tallyveil.runs.observer import Observer
from tallyveil.runs.once import run_product
from tallyveil.runs.product import Job, Outcome, Run
from tallyveil.storage.write import write_parquet, write_text

KEY = insecure_key("once")
PLAN = b"\x05" * 32
_EPSILON = {"lower": 1.0, "upper": 2.0}
PRIVACY = {
    "budget": "1",
    "delta": "1/10",
    "epsilon": _EPSILON,
    "changed": {"budget": "2", "epsilon": _EPSILON},
}


class Killed(BaseException):
    """Stands for the process ending at once."""


def make_job(**changes: Any) -> Job:
    fields: dict[str, Any] = {
        "kind": ReleaseKind.HOUSEHOLDS,
        "plan_digest": PLAN.hex(),
        "whole_plan": PLAN,
        "binding": b"\x07" * 32,
        # Room for a second spend, so that the budget is not what prevents it.
        "declaration": Declaration("rho", Fraction(6), Neighbours.BOUNDED),
        "event": DiscreteGaussian(Fraction(1), 1, 2),
        "privacy": {"r": PRIVACY},
        "description": "a test",
        "token": "test",
    }
    return Job(**(fields | changes))


@dataclass
class Toy:
    """Two stages; what they write depends on the key alone. It is a planned product and its own work."""

    changes: dict[str, Any] = field(default_factory=dict)
    during: Callable[[Run], None] = lambda run: None

    @property
    def plan_digest(self) -> str:
        return self.job().plan_digest

    def spend(self) -> Spend:
        job = self.job()
        return Spend(job.event, job.declaration.neighbours, job.description)

    def refuse(self, out: Path) -> None:
        """Every folder will do."""

    def read(self, out: Path, observer: Observer) -> "Toy":
        observer.stage_started("read", 1)
        observer.stage_finished("read", 0.0)
        return self

    def job(self) -> Job:
        return make_job(**self.changes)

    def release(self, run: Run) -> dict[str, Any]:
        number = run.secrets.noise_key[0]

        def table(name: str) -> dict[str, Any]:
            frame = pl.DataFrame({"noisy": [number + len(name)]})
            write_parquet(run.path / name / "part-00000.parquet", frame, run.tags)
            write_text(run.path / f"{name}.txt", str(number))
            return {"rows": frame.height}

        sizes = {name: run.stage(name, [name, f"{name}.txt"], partial(table, name)) for name in "ab"}
        run.make(["plan.json"], lambda: write_text(run.path / "plan.json", "{}"))
        self.during(run)
        return {"sizes": {name: {"groups": size} for name, size in sizes.items()}}

    def check(self, run: Run) -> list[str]:
        return [f"{name} is there" for name in "ab" if (run.path / f"{name}.txt").is_file()]


def contents(out: Path) -> dict[str, bytes]:
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


@pytest.fixture
def make() -> Callable[..., Outcome]:
    def once(out: Path, *, test_key: bytes | None = KEY, book: Path | None = None, **changes: Any) -> Outcome:
        return run_product(Toy(changes), out, test_key=test_key, book=book)

    return once


STEPS = ("mkdir", "open", "rename", "replace", "unlink", "rmdir", "fsync", "ftruncate")


@pytest.fixture
def kill_at_step(monkeypatch) -> Callable[..., bool]:
    """End some work right before its n-th change to the disk, or let that change fail; whether it came so far."""

    def act(number: int, act: Callable[[], Any], *, fails: OSError | None = None) -> bool:
        calls = [0]

        def counted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **named: Any) -> Any:
                # opening to read changes nothing
                if name != "open" or arguments[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                    calls[0] += 1
                    if calls[0] == number and fails is not None:
                        raise fails
                    if (
                        calls[0] >= number and fails is None
                    ):  # once dead it does nothing more, tidying up included
                        raise Killed
                return original(*arguments, **named)

            return call

        with monkeypatch.context() as patch:
            for name in STEPS:
                patch.setattr(os, name, counted(name, getattr(os, name)))
            try:
                act()
            except Killed:
                return True
        return calls[0] >= number

    return act
