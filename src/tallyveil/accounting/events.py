"""Privacy events: descriptions of what was done, as data, apart from what it costs.

Stability contract: an event describes exactly one mechanism and never changes its meaning. The field names and the
JSON form (`to_mapping`, `event_from_mapping`) are kept: every later version reads a ledger of an earlier one with the
same cost. New mechanisms are new classes. Unknown kinds and keys are errors. They are never skipped, because nobody
would count the cost of a skipped event.

Sensitivities and multiplicities hold under the relation that the reader of the event works with. The event itself
names no relation; `accounting/translation.py` turns one into the other.

Costs (`accounting/costs.py`, `accounting/zcdp.py`, `accounting/renyi.py`) and exact loss laws
(`accounting/losses/loss_laws.py`) are computed from these descriptions alone.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

from tallyveil.accounting.exact import count_of, parameter_of_noise, share_of
from tallyveil.accounting.further_events import (
    ApproximateDP,
    FurtherRelease,
    Gaussian,
    Laplace,
    RandomizedResponse,
)
from tallyveil.accounting.subspace_events import IntegerSubspaceGaussian, IntegerSubspaceLaplace
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given

Chosen = Literal["adaptive", "public"]

_LEAST_SHARE = Fraction(1, 10**100)
"""Least distance from 0 and from 1 of the probability of a sample. Searches square it in floats: 1e-200 is one, but the
square of 1e-200 would be 0."""


@dataclass(frozen=True, slots=True, init=False)
class DiscreteGaussian:
    """Integer answers released with discrete Gaussian noise, independent in every answer.

    A partition query is one event with sensitivity 1 and multiplicity `Neighbours.answers_moved`: under
    bounded neighbours a changed record moves two of its answers, by one each.

    This class describes a release. The law of the noise itself is `tallyveil.noise.laws.DiscreteGaussian`; code that
    needs both imports this one as `DiscreteGaussianEvent`.

    Attributes:
        variance: The parameter sigma squared of the noise, P(x) ~ exp(-x^2 / (2 variance)); counts squared,
            exact. Given as a Fraction, a Decimal, an integer or exact text; a float is refused.
        sensitivity: By how much one answer moves between neighbours; a whole number of counts.
        multiplicity: Number of answers that move by this much, in one release or in several; each has its own noise.

    Source: Canonne, Kamath, Steinke 2020, Theorem 4; SafeTab (Haney et al.), Lemma 7.
    """

    variance: Fraction
    sensitivity: int
    multiplicity: int

    def __init__(self, variance: Fraction | int | str, sensitivity: int = 1, multiplicity: int = 1) -> None:
        # The class is frozen, and text is to become exact before anybody sees it.
        object.__setattr__(self, "variance", parameter_of_noise(variance, "variance of DiscreteGaussian"))
        object.__setattr__(self, "sensitivity", count_of(sensitivity, "sensitivity of DiscreteGaussian"))
        object.__setattr__(self, "multiplicity", count_of(multiplicity, "multiplicity of DiscreteGaussian"))

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; the variance is an exact fraction as text."""
        return {
            "kind": "discrete_gaussian",
            "variance": str(self.variance),
            "sensitivity": self.sensitivity,
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True, init=False)
class DiscreteLaplace:
    """Integer answers released with discrete Laplace (two-sided geometric) noise, independent in each answer.

    A partition query is one event with sensitivity 1 and multiplicity `Neighbours.answers_moved`.

    This class describes a release. The law of the noise itself is `tallyveil.noise.laws.DiscreteLaplace`; code that
    needs both imports this one as `DiscreteLaplaceEvent`.

    Attributes:
        scale: P(x) ~ exp(-|x| / scale); counts, exact. Given as a Fraction, a Decimal, an integer or exact
            text; a float is refused.
        sensitivity: By how much one answer moves between neighbours; a whole number of counts.
        multiplicity: Number of answers that move by this much, in one release or in several; each has its own noise.

    Source: Ghosh, Roughgarden, Sundararajan 2009; SafeTab (Haney et al.), Lemma 6.
    """

    scale: Fraction
    sensitivity: int
    multiplicity: int

    def __init__(self, scale: Fraction | int | str, sensitivity: int = 1, multiplicity: int = 1) -> None:
        object.__setattr__(self, "scale", parameter_of_noise(scale, "scale of DiscreteLaplace"))
        object.__setattr__(self, "sensitivity", count_of(sensitivity, "sensitivity of DiscreteLaplace"))
        object.__setattr__(self, "multiplicity", count_of(multiplicity, "multiplicity of DiscreteLaplace"))

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; the scale is an exact fraction as text."""
        return {
            "kind": "discrete_laplace",
            "scale": str(self.scale),
            "sensitivity": self.sensitivity,
            "multiplicity": self.multiplicity,
        }


Sampleable: TypeAlias = (
    Gaussian | Laplace | DiscreteGaussian | DiscreteLaplace | RandomizedResponse | ApproximateDP
)
"""Releases that may see a random sample."""


@dataclass(frozen=True, slots=True, init=False)
class PoissonSampled:
    """A release that sees a random sample of the records: each record is in it with a probability, independently.

    The event is stated under unbounded neighbours: one record is added or removed. Both changes are accounted for, and
    the worse one counts. Nothing is claimed under bounded neighbours. The sample itself must stay secret.

    Attributes:
        event: What is done with the sample, stated under unbounded neighbours: one answer with real or integer noise
            (normal noise also with several answers), randomized response, (epsilon, delta), or a sample again.
        probability: Of each record, between 0 and 1; exact.
        multiplicity: Number of samples, each drawn anew: the steps of a training run.

    Source: Zhu, Dong, Wang 2022 (Poisson subsampling of dominating pairs); docs/proofs/real-noise.md, section 4.
    """

    event: "Sampleable | PoissonSampled"
    probability: Fraction
    multiplicity: int

    def __init__(
        self,
        event: "Sampleable | PoissonSampled",
        probability: Fraction | int | str,
        multiplicity: int = 1,
    ) -> None:
        if not isinstance(event, Sampleable | PoissonSampled):
            raise BudgetError(
                f"PoissonSampled takes one release, got {as_given(event)}. Give Gaussian, Laplace, DiscreteGaussian, "
                "DiscreteLaplace, RandomizedResponse, ApproximateDP or PoissonSampled; state any other one as "
                "ApproximateDP."
            )
        # Answers on one sample are not independent given the record; normal ones are one vector together.
        if event.multiplicity != 1 and not isinstance(event, Gaussian):
            raise BudgetError(
                f"PoissonSampled takes one answer, got {as_given(event)} with {event.multiplicity} of them that see "
                "the same sample. Give the multiplicity to PoissonSampled if each answer has a sample of its own. "
                "State the answers together as ApproximateDP if they share one."
            )
        object.__setattr__(self, "event", event)
        share = share_of(probability, "probability of PoissonSampled")
        # 0 and 1 themselves are exact cases: nothing is seen, or everything.
        if 0 < min(share, 1 - share) < _LEAST_SHARE:
            raise BudgetError(
                f"probability of PoissonSampled must be 0, 1, or 1e-100 away from both, got {as_given(probability)}."
            )
        object.__setattr__(self, "probability", share)
        object.__setattr__(self, "multiplicity", count_of(multiplicity, "multiplicity of PoissonSampled"))

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; the probability is an exact fraction as text."""
        return {
            "kind": "poisson_sampled",
            "event": self.event.to_mapping(),
            "probability": str(self.probability),
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True)
class SequentialEvent:
    """Events on the same records, one after the other; each may depend on what the earlier ones released.

    Attributes:
        events: The events in order. Without any event, nothing is released.

    Source: SafeTab (Haney et al.), Lemmas 1 to 3; Zhu, Dong, Wang 2022, Theorem 10 (exact loss laws).
    """

    events: tuple["PrivacyEvent", ...]

    def to_mapping(self) -> dict[str, Any]:
        """JSON form."""
        return {"kind": "sequential", "events": [event.to_mapping() for event in self.events]}


@dataclass(frozen=True, slots=True)
class AdaptiveEvent:
    """One of several events is done. Which one may depend on anything that was released before.

    Every branch must have the same loss law. Given all that was released before, the loss then has that law
    whichever branch was taken, so the choice costs nothing: the event costs one branch. An example is SafeTab's
    second stage, which tabulates more or less detail with the same noise.

    Loss laws are computed from events, so this class cannot compare them itself. Every function that turns an
    event into a cost, a guarantee or another event, and every read or write of a ledger, takes the branches from
    `branches_of_one_law` in `accounting/losses/loss_laws.py`, which refuses branches with different laws.

    Attributes:
        branches: What may be done, at least one.

    Raises:
        BudgetError: there is no branch.

    Source: SafeTab (Haney et al.), proofs of Theorems 1 to 3, case 2; Zhu, Dong, Wang 2022, Theorem 10.
    """

    branches: tuple["PrivacyEvent", ...]

    def __post_init__(self) -> None:
        _require_a_branch("AdaptiveEvent", self.branches)

    def to_mapping(self) -> dict[str, Any]:
        """JSON form."""
        return {"kind": "adaptive", "branches": [event.to_mapping() for event in self.branches]}


@dataclass(frozen=True, slots=True)
class WorstEvent:
    """One of several events is done, and the cost is that of the worst one.

    Attributes:
        branches: What may be done, at least one.
        chosen: What the choice depends on. "adaptive": on anything that was released before. "public": on public
            facts alone; an example is SafeTab's TotalOnly groups, which are an input of the algorithm. Within a
            `ParallelEvent`, the choice may differ from part to part.

    Raises:
        BudgetError: no branch, or an unknown choice.

    Source: SafeTab (Haney et al.), Theorem 2: the maximum in equation 30.
    """

    branches: tuple["PrivacyEvent", ...]
    chosen: Chosen = "adaptive"

    def __post_init__(self) -> None:
        _require_a_branch("WorstEvent", self.branches)
        # A misspelt choice must not pass for the cheaper one.
        if self.chosen not in ("adaptive", "public"):
            raise BudgetError(
                f"chosen of WorstEvent must be 'adaptive' or 'public', got {as_given(self.chosen)}. Use one of them."
            )

    def to_mapping(self) -> dict[str, Any]:
        """JSON form."""
        branches = [event.to_mapping() for event in self.branches]
        return {"kind": "worst", "branches": branches, "chosen": self.chosen}


@dataclass(frozen=True, slots=True)
class ParallelEvent:
    """Events on parts of the records: each record counts in the data of at most `degree` parts.

    The record and public facts alone must decide which parts a record falls in. The cost is that of the `degree` worst
    parts that a record can be in. A listed part may stand for several parts that are treated alike, so it counts up to
    `degree` times.

    Under bounded neighbours a changed record may leave `degree` parts and enter as many others. The cost is still
    `degree` times the largest, as long as every event below is a discrete Gaussian or Laplace release of partition
    queries, as here: to leave or to enter a part costs half of what a change within the part costs.

    Attributes:
        events: One event for each part, or for each kind of part. Without any event, nothing is released.
        degree: Largest number of parts that hold one record: 1 for disjoint parts; Delta(g) for SafeTab.

    Raises:
        BudgetError: the degree is not an integer of 1 or more.

    Source: SafeTab (Haney et al.), Lemmas 9 (pure), 10 (zCDP) and 12 (Renyi).
    """

    events: tuple["PrivacyEvent", ...]
    degree: int = 1

    def __post_init__(self) -> None:
        # The cost is multiplied by it, so that a degree below 1 would hide what the parts cost.
        object.__setattr__(self, "degree", count_of(self.degree, "degree of ParallelEvent"))

    def to_mapping(self) -> dict[str, Any]:
        """JSON form."""
        events = [event.to_mapping() for event in self.events]
        return {"kind": "parallel", "events": events, "degree": self.degree}


@dataclass(frozen=True, slots=True)
class InvariantEvent:
    """A statistic that is published exactly. It costs no budget, because neighbours are defined to agree on it.

    Privacy: nothing is promised about what the statistic itself reveals. The guarantee must name it.

    Attributes:
        statement: What is published, in words for the reader of the guarantee.
    """

    statement: str

    def to_mapping(self) -> dict[str, Any]:
        """JSON form."""
        return {"kind": "invariant", "statement": self.statement}


@dataclass(frozen=True, slots=True)
class NonPrivateEvent:
    """The records were looked at without any protection; no finite budget pays for this.

    Attributes:
        reason: Why, in words for the reader of the ledger.
    """

    reason: str

    def to_mapping(self) -> dict[str, Any]:
        """JSON form."""
        return {"kind": "non_private", "reason": self.reason}


TEST_KEY: Final = NonPrivateEvent("insecure test key: anybody can recompute the noise")
"""Everybody can compute this noise and subtract it, so nothing that was published is protected."""

WITHOUT_NOISE: Final = NonPrivateEvent(
    "tables without noise, to verify an implementation; they are the true counts"
)
"""The published tables are the true counts themselves."""

UNPROTECTED: Final = frozenset({TEST_KEY, WITHOUT_NOISE})
"""Acts after which nothing in the run's folder is protected.

Any other non-private act, such as an evaluation, does not change the guarantee of what the run published.
"""

Release: TypeAlias = (
    DiscreteGaussian
    | DiscreteLaplace
    | IntegerSubspaceLaplace
    | IntegerSubspaceGaussian
    | FurtherRelease
    | PoissonSampled
)
PrivacyEvent: TypeAlias = (
    Release | SequentialEvent | AdaptiveEvent | WorstEvent | ParallelEvent | InvariantEvent | NonPrivateEvent
)


def parts_of(event: PrivacyEvent) -> tuple[PrivacyEvent, ...]:
    """The events that an event consists of, one level down; none for a release, an invariant or a non-private act."""
    match event:
        # A PoissonSampled counts as a release: its inner event has no cost of its own.
        case SequentialEvent() | ParallelEvent():
            return event.events
        case AdaptiveEvent() | WorstEvent():
            return event.branches
        case _:
            return ()


# Without a branch nothing could be done, and a largest cost of none does not exist.
def _require_a_branch(event: str, branches: tuple[PrivacyEvent, ...]) -> None:
    if not branches:
        raise BudgetError(f"{event} has no branch; wanted at least one. Leave the event out.")
