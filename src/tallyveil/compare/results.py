"""What became of every method of a comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tallyveil.compare.attacks.attack import Attack, Finding
from tallyveil.compare.inputs import SharedInput
from tallyveil.compare.methods.method import Method
from tallyveil.compare.published import Certificate
from tallyveil.compare.settings import CompareFile
from tallyveil.plans.release import ReleasePlan


@dataclass(frozen=True, slots=True, eq=False)
class MethodResult:
    """What became of one method.

    Attributes:
        method: With its settings.
        losses: The table of `losses_of`, as means over the draws.
        findings: Of the attacks that are shown, over all draws.
        certificate: What is proved of it; None where nothing is.
        notes: What a reader must know of the last draw.
        draws: Number of draws.
        seconds: Elapsed seconds of publishing once, while other draws were worked on.
    """

    method: Method
    losses: pl.DataFrame
    findings: tuple[Finding, ...]
    certificate: Certificate | None
    notes: tuple[str, ...]
    draws: int
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """A whole comparison.

    Attributes:
        file: What was asked for.
        plan: The release file of the input.
        shared: The input.
        results: Of every method, in the order of the file.
        power: By attack, its headline on exact tables and on a release with an epsilon of 1000.
        shown_attacks: Attacks that succeeded where they must, in the order of the page.
        refused: Those that did not, each with a sentence.
        seconds: Processor seconds of everything.
    """

    file: CompareFile
    plan: ReleasePlan
    shared: SharedInput
    results: tuple[MethodResult, ...]
    power: Mapping[str, Sequence[float | None]]
    shown_attacks: tuple[Attack, ...]
    refused: Mapping[str, str]
    seconds: float
