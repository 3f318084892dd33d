"""What the runs of SafeTab share, whatever their tables: what they spend, what it means, and the files that say so."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final, Protocol

import polars as pl

from tallyveil.accounting.events import PrivacyEvent
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.budget.guarantees import parameters_of_cost
from tallyveil.budget.strategy import Mechanism
from tallyveil.files.manifest import ReleaseKind
from tallyveil.runs.folder_state import PLAN
from tallyveil.runs.key_file import binding_of
from tallyveil.runs.product import Job, Run
from tallyveil.storage.json_files import Json, JsonObject
from tallyveil.storage.write import write_json

EXPECTED: Final = "expected.json"
"""File of the errors that the plan lets expect, in the folder of a run."""


def safetab_job(
    kind: ReleaseKind,
    digest: bytes,
    inputs: Sequence[bytes],
    declaration: Declaration,
    event: PrivacyEvent,
    privacy: JsonObject,
    description: str,
) -> Job:
    """What a run spends, and on what.

    Args:
        kind: Its product.
        digest: Of the plan.
        inputs: Digests of what is read beside the plan.
        declaration: The declared budget.
        event: What the run does.
        privacy: Its guarantee.
        description: What is made, in words.
    """
    return Job(
        kind=kind,
        plan_digest=digest.hex(),
        whole_plan=digest,
        # In the order of the arguments: the same inputs in another order would be another run.
        binding=binding_of(digest, *inputs),
        declaration=declaration,
        event=event,
        privacy=privacy,
        description=description,
        # The name of the one act of the run in the ledger, by which a resumed run finds its own spend.
        token="safetab",
    )


def write_plan_files(run: Run, plan: JsonObject, expected: Json) -> None:
    """Write the plan, and the errors that it lets expect."""
    # Written once; a resumed run finds them and leaves them as they are.
    run.make([PLAN], lambda: write_json(run.path / PLAN, plan))
    run.make([EXPECTED], lambda: write_json(run.path / EXPECTED, expected))


def parameter_table(mechanism: Mechanism, costs: Iterable[tuple[str, Fraction]]) -> pl.DataFrame:
    """The privacy parameters that follow from costs alone, to stand beside a claim of accuracy.

    Args:
        mechanism: Of the noise.
        costs: Names of levels, and what they cost in rho or epsilon.
    """
    # From the costs alone, so that no number here depends on the records.
    rows = [{"level": name, **parameters_of_cost(mechanism, cost)} for name, cost in costs]
    return pl.DataFrame(rows, infer_schema_length=None)


class _PlannedSet(Protocol):
    """A level set, whatever it counts."""

    @property
    def name(self) -> str: ...
    @property
    def budget(self) -> Fraction: ...


class _PlannedRun(Protocol):
    """One run of a plan."""

    @property
    def run(self) -> str: ...
    @property
    def budget(self) -> Fraction: ...
    @property
    def sets(self) -> Sequence[_PlannedSet]: ...


def run_parameters(mechanism: Mechanism, runs: Iterable[_PlannedRun]) -> pl.DataFrame:
    """The privacy parameters of every level set of some runs by itself, and of each run together."""
    costs = []
    for run in runs:
        costs += [(f"{run.run} {level_set.name}", level_set.budget) for level_set in run.sets]
        costs.append((f"{run.run}, all level sets", run.budget))
    return parameter_table(mechanism, costs)
