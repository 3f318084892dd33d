"""What became of every method of a comparison, and of an attack on one publication."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tallyveil.arrays import Bools
from tallyveil.compare.attacks.attack import Attack, Finding
from tallyveil.compare.claims import CAUTION, Claims
from tallyveil.compare.inputs import SharedInput
from tallyveil.compare.methods.method import Method
from tallyveil.compare.published import Certificate
from tallyveil.compare.settings import AttackFile, CompareFile
from tallyveil.files.evaluation import WARNING
from tallyveil.files.marks import Marks
from tallyveil.plans.release import ReleasePlan, StatedPlan
from tallyveil.storage.json_files import JsonObject


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
        control: Budget of that release: an epsilon of 1000, or the largest that can be drawn.
        at_risk: By attack, how many people of the input it is about; attacks that are about anybody are left out.
        shown_attacks: Attacks that succeeded where they must, in the order of the page.
        refused: Those that did not, each with a sentence.
        seconds: Processor seconds of everything.
    """

    file: CompareFile
    plan: ReleasePlan
    shared: SharedInput
    results: tuple[MethodResult, ...]
    power: Mapping[str, Sequence[float | None]]
    control: str
    at_risk: Mapping[str, int]
    shown_attacks: tuple[Attack, ...]
    refused: Mapping[str, str]
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Attacked:
    """What became of attacks on one publication.

    Attributes:
        file: What was asked for.
        plan: Of the release.
        shared: The areas and tables, with published counts.
        claims: What an outsider claims.
        right: Whether each claim is right; None without the true records.
        there: Whether what each claim takes for granted is true; None without the true records.
        findings: Of the attacks of a comparison; none without the true records.
        power: By attack, its headline on exact tables and on a release with an epsilon of 1000.
        control: Budget of that release; empty without the true records.
        refused: Attacks that were too weak to be shown, each with a sentence.
        notes: What a reader must know.
        certificate: What is proved; None where nothing is.
        marks: Of the release, as it was before this attack; none of a table of counts.
    """

    file: AttackFile
    plan: StatedPlan
    shared: SharedInput
    claims: Claims
    right: Bools | None
    there: Bools | None
    findings: tuple[Finding, ...]
    power: Mapping[str, Sequence[float | None]]
    control: str
    refused: dict[str, str]
    notes: tuple[str, ...]
    certificate: Certificate | None
    marks: Marks

    @property
    def warning(self) -> str:
        """What a reader of the claims must know, whatever was published."""
        return CAUTION if self.right is None else WARNING

    def marked(self) -> JsonObject:
        """The warning and the marks in a JSON file or in what a command prints for programs."""
        is_private = self.right is None and self.marks.protected
        marks = {} if is_private else {"protected": False}
        return {**marks, "warning": self.warning, "warnings": list(self.marks.warnings)}
