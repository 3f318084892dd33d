"""Privacy events: descriptions of what was done, as data, apart from what it costs.

`Neighbours` says how two populations differ between which a guarantee holds.

`IntegerSubspaceLaplace` and `IntegerSubspaceGaussian` keep invariants exactly, through noise on the lattice of
the invariants. Their guarantee depends on the distance of two populations. Each event states the largest
distance of the pairs that it protects, which are pairs that agree on the named invariants; this distance has
no default. Under bounded neighbours a changed record moves two cells by one each (l1 distance 2, squared l2
distance 2). But invariants may rule such a change out, and then the nearest pairs that agree on them are
farther apart.

`Gaussian`, `Laplace`, `MixtureOfGaussians`, `RandomizedResponse`, `ApproximateDP` and `ZCDP` are for mechanisms that
Tallyveil does not run itself. An event describes the mechanism in exact arithmetic. Noise that a program draws in
floating point is another mechanism, whose guarantee may be far worse (Mironov 2012).

Stability contract: an event describes exactly one mechanism and never changes its meaning. The field names
and the JSON form (`to_mapping`, `event_from_mapping`) are kept: every later version reads a ledger of an
earlier one with the same cost. New mechanisms are new classes. Unknown kinds and keys are errors. They are
never skipped, because nobody would count the cost of a skipped event.

Sensitivities and multiplicities hold under the relation that the reader of the event works with. The event
itself names no relation; `accounting/costs.py` turns one into the other.

Costs (`accounting/costs.py`, `accounting/renyi.py`) and exact loss laws (`accounting/losses.py`) are computed
from these descriptions alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

from tallyveil.accounting.numbers import (
    MOST_ANSWERS,
    count_of,
    exact_number,
    multiplicity_of,
    parameter_of_noise,
    share_of,
)
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given


class Neighbours(StrEnum):
    """The relation under which two populations are neighbours.

    BOUNDED: one record changes its value; the number of records stays the same, since the record leaves a cell and
    enters another. The 2020 Census used this one, within a state.

    UNBOUNDED: one record is added or removed.

    A *partition query* counts each record in at most one of its answers, by one. Every cost in this package starts
    from this table:

    | relation | answers that move | squared L2 sensitivity | L1 sensitivity |
    |---|---|---|---|
    | bounded | two, by one each | 2 | 2 |
    | unbounded | one, by one | 1 | 1 |

    So the same noise costs twice as much rho, or epsilon, under bounded neighbours. An (epsilon, delta) under one
    relation says nothing about the other one until it is translated (`accounting/costs.py`).

    Source: Cumings-Menon et al. 2023, Lemma 4 (bounded); Dwork and Roth 2014, section 2.3.
    """

    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"

    @property
    def answers_moved(self) -> int:
        """Number of answers of a partition query that move, each by one; also its L1 and squared L2 sensitivity."""
        return 2 if self is Neighbours.BOUNDED else 1

    @classmethod
    def of(cls, value: "Neighbours | str") -> "Neighbours":
        """The relation that is given itself, or by its name: "bounded" or "unbounded".

        Raises:
            BudgetError: it is neither.
        """
        if isinstance(value, str) and value in tuple(cls):
            return cls(value)
        raise BudgetError(
            f"neighbours must be 'bounded' (one record changes its value) or 'unbounded' (one record is added or "
            f"removed), got {as_given(value)}. Give the relation that the sensitivities of the events are stated under."
        )


@dataclass(frozen=True, slots=True, init=False)
class IntegerSubspaceLaplace:
    """A table released with generalised Laplace noise, P(z) ~ exp(-epsilon |z|) on the lattice of its invariants.

    Attributes:
        epsilon: Loss for each unit of distance; exact.
        norm: Norm of the noise and of the distance, "l1" or "l2".
        distance: Largest distance, in that norm, of two populations that are protected from each other; exact. For l2,
            a fraction that is not below the root.
        invariants: Statements of what is published exactly.
        total_variation: Upper bound on the total variation between the noise drawn and its law; exact. It adds to
            delta.
        restricted: Whether only tables without negative counts can come out. The normaliser of the law then depends on
            the true table, and the loss is twice as large.

    Source: Dharangutte, Gao, Gong, Yu 2022, Theorem 10; docs/proofs/integer-subspace.md, section 7.
    """

    epsilon: Fraction
    norm: Literal["l1", "l2"]
    distance: Fraction
    invariants: tuple[str, ...]
    total_variation: Fraction
    restricted: bool

    def __init__(
        self,
        epsilon: Fraction | int | str,
        norm: Literal["l1", "l2"],
        distance: Fraction | int | str,
        invariants: tuple[str, ...] = (),
        total_variation: Fraction | int | str = 0,
        restricted: bool = False,
    ) -> None:
        if norm not in ("l1", "l2"):
            raise BudgetError(
                f"norm of IntegerSubspaceLaplace must be 'l1' or 'l2', got {as_given(norm)}. Use one of them."
            )
        _set(self, "epsilon", parameter_of_noise(epsilon, "epsilon of IntegerSubspaceLaplace"))
        _set(self, "norm", norm)
        _set(self, "distance", parameter_of_noise(distance, "distance of IntegerSubspaceLaplace"))
        _set(self, "invariants", _names(invariants))
        _set(self, "total_variation", _variation(total_variation))
        # It doubles the cost: a text or a number that happens to be false must not pass.
        if not isinstance(restricted, bool):
            raise BudgetError(
                f"restricted of IntegerSubspaceLaplace must be true or false, got {as_given(restricted)}. Use true for "
                "a law on tables without negative counts."
            )
        _set(self, "restricted", restricted)

    @property
    def loss(self) -> Fraction:
        """Bound on the privacy loss: epsilon times distance, and twice as much for a restricted law."""
        # A law on fewer tables is normalised anew, and the normalisers of neighbours differ as well.
        return self.epsilon * self.distance * (2 if self.restricted else 1)

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; numbers are exact fractions as text."""
        return {
            "kind": "integer_subspace_laplace",
            "epsilon": str(self.epsilon),
            "norm": self.norm,
            "distance": str(self.distance),
            "invariants": list(self.invariants),
            "total_variation": str(self.total_variation),
            **({"restricted": True} if self.restricted else {}),
        }


@dataclass(frozen=True, slots=True, init=False)
class IntegerSubspaceGaussian:
    """A table released with Gaussian noise on its lattice, P(z) ~ exp(-|z|^2 / (2 variance)).

    It costs rho = squared distance / (2 variance), whatever the dimension of the lattice.

    Attributes:
        variance: Parameter of the noise; exact.
        squared_distance: Largest squared l2 distance of two populations that are protected from each other; an integer.
        invariants: Statements of what is published exactly.
        total_variation: Upper bound on the total variation between the noise drawn and its law; exact. It adds to
            delta.

    Source: docs/proofs/integer-subspace.md, section 2; for one dimension Canonne, Kamath, Steinke 2020, Theorem 4.
    """

    variance: Fraction
    squared_distance: int
    invariants: tuple[str, ...]
    total_variation: Fraction

    def __init__(
        self,
        variance: Fraction | int | str,
        squared_distance: int,
        invariants: tuple[str, ...] = (),
        total_variation: Fraction | int | str = 0,
    ) -> None:
        _set(self, "variance", parameter_of_noise(variance, "variance of IntegerSubspaceGaussian"))
        _set(
            self,
            "squared_distance",
            count_of(squared_distance, "squared_distance of IntegerSubspaceGaussian"),
        )
        _set(self, "invariants", _names(invariants))
        _set(self, "total_variation", _variation(total_variation))

    @property
    def rho(self) -> Fraction:
        """Cost in zero-concentrated differential privacy."""
        return self.squared_distance / (2 * self.variance)

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; numbers are exact fractions as text."""
        return {
            "kind": "integer_subspace_gaussian",
            "variance": str(self.variance),
            "squared_distance": self.squared_distance,
            "invariants": list(self.invariants),
            "total_variation": str(self.total_variation),
        }


SubspaceRelease = IntegerSubspaceLaplace | IntegerSubspaceGaussian


def require_distance(release: SubspaceRelease, neighbours: Neighbours) -> None:
    """Refuse a release whose distance is below what one record moves, because its stated cost would be too low.

    Raises:
        BudgetError: two neighbours are farther apart than the release's distance.
    """
    # Both the l1 and the squared l2 distance of neighbours are the number of cells that move by one.
    if isinstance(release, IntegerSubspaceGaussian):
        size, measure = Fraction(release.squared_distance), "squared l2 distance"
    elif release.norm == "l2":
        size, measure = release.distance**2, "squared l2 distance"
    else:
        size, measure = release.distance, "l1 distance"
    # A larger distance is allowed: it protects more than neighbours, at a higher cost.
    if size < neighbours.answers_moved:
        raise BudgetError(
            f"an integer-subspace release is stated for tables whose {measure} is at most {size}, but "
            f"{neighbours.value} neighbours can have {measure} {neighbours.answers_moved}. State the release at that "
            "distance or a larger one; its cost grows with the distance.",
            code="subspace-distance",
        )


def _set(event: object, name: str, value: object) -> None:
    object.__setattr__(event, name, value)


def _variation(value: Fraction | int | str) -> Fraction:
    number = exact_number(value, "total variation of an integer-subspace release")
    # It adds to delta: at 1 nothing would be promised.
    if not 0 <= number < 1:
        raise BudgetError(
            f"the total variation distance of a release must be at least 0 and below 1, got {as_given(value)}. Run "
            "the chain longer."
        )
    return number


def _names(invariants: tuple[str, ...]) -> tuple[str, ...]:
    # A single text is a sequence too, of letters.
    if isinstance(invariants, str) or not all(isinstance(name, str) for name in invariants):
        raise BudgetError(
            f"invariants of a release must be a list of statements, got {as_given(invariants)}. Give one text for each "
            "invariant."
        )
    return tuple(invariants)


LARGEST_LOSS = 10**4
"""Largest epsilon of one answer, and largest squared quotient of a sensitivity and a standard deviation."""

_LEAST_LOSS = Fraction(1, 10**60)
"""Least loss of one answer that is above 0. Floats still hold its fourth power, 1e-240; with twice the
exponent that would be 0."""
_LEAST_DELTA = Fraction(1, 10**300)
"""Least delta above 0. Normal floats end at 2.2e-308; with twice the exponent it would be 0."""


@dataclass(frozen=True, slots=True, init=False)
class Gaussian:
    """Real answers released with normal noise, independent in every answer.

    The guarantee is that of real numbers. Normal noise drawn in floating point does not have it: some outputs are
    possible for one neighbour only. Where the answers are integers, use `DiscreteGaussian`.

    Attributes:
        variance: Of the noise; exact. Given as a Fraction, a Decimal, an integer or exact text; a float is refused.
            The "noise multiplier" z of machine learning is `Gaussian(variance=z * z)`.
        sensitivity: By how much one answer moves between neighbours, or the l2 distance of a whole vector; exact.
        multiplicity: Number of answers that move by this much, each with its own noise.

    Source: Balle, Wang 2018, Theorem 8; Dong, Roth, Su 2022.
    """

    variance: Fraction
    sensitivity: Fraction
    multiplicity: int

    def __init__(
        self, variance: Fraction | int | str, sensitivity: Fraction | int | str = 1, multiplicity: int = 1
    ) -> None:
        _set(self, "variance", parameter_of_noise(variance, "variance of Gaussian"))
        _set(self, "sensitivity", parameter_of_noise(sensitivity, "sensitivity of Gaussian"))
        _set(self, "multiplicity", multiplicity_of(multiplicity, "Gaussian"))
        # Both numbers may be in range and their quotient beyond what floats search.
        _require_loss(self.mu_squared, "sensitivity^2 / variance of Gaussian")

    @property
    def mu_squared(self) -> Fraction:
        """The square of mu of Gaussian differential privacy, for one answer."""
        return self.sensitivity**2 / self.variance

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; numbers are exact fractions as text."""
        return {
            "kind": "gaussian",
            "variance": str(self.variance),
            "sensitivity": str(self.sensitivity),
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True, init=False)
class Laplace:
    """Real answers released with Laplace noise, independent in every answer.

    The guarantee is that of real numbers. Laplace noise drawn in floating point does not have it (Mironov 2012). Where
    the answers are integers, use `DiscreteLaplace`.

    Attributes:
        scale: The density is proportional to exp(-|x| / scale); exact. Given as a Fraction, a Decimal, an integer or
            exact text; a float is refused.
        sensitivity: By how much one answer moves between neighbours; exact.
        multiplicity: Number of answers that move by this much, each with its own noise.

    Source: Dwork, McSherry, Nissim, Smith 2006.
    """

    scale: Fraction
    sensitivity: Fraction
    multiplicity: int

    def __init__(
        self, scale: Fraction | int | str, sensitivity: Fraction | int | str = 1, multiplicity: int = 1
    ) -> None:
        _set(self, "scale", parameter_of_noise(scale, "scale of Laplace"))
        _set(self, "sensitivity", parameter_of_noise(sensitivity, "sensitivity of Laplace"))
        _set(self, "multiplicity", multiplicity_of(multiplicity, "Laplace"))
        # As for normal noise: each in range does not mean that their quotient is.
        _require_loss(self.epsilon, "sensitivity / scale of Laplace")

    @property
    def epsilon(self) -> Fraction:
        """Pure epsilon of one answer."""
        return self.sensitivity / self.scale

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; numbers are exact fractions as text."""
        return {
            "kind": "laplace",
            "scale": str(self.scale),
            "sensitivity": str(self.sensitivity),
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True, init=False)
class RandomizedResponse:
    """One of several options is released: the true one with odds exp(epsilon) to 1 against each other option.

    Neighbours differ in the true option. So under bounded neighbours, a person may answer this once. Under unbounded
    neighbours, state it only if a person who is not there answers too.

    Attributes:
        epsilon: Pure epsilon, above 0; exact.
        options: Number of options, 2 or more.
        multiplicity: Number of answers of the same person.

    Source: Warner 1965; Kairouz, Oh, Viswanath 2015.
    """

    epsilon: Fraction
    options: int
    multiplicity: int

    def __init__(self, epsilon: Fraction | int | str, options: int = 2, multiplicity: int = 1) -> None:
        _set(self, "epsilon", parameter_of_noise(epsilon, "epsilon of RandomizedResponse"))
        # With one option nothing is released.
        _set(self, "options", count_of(options, "options of RandomizedResponse", least=2))
        _set(self, "multiplicity", multiplicity_of(multiplicity, "RandomizedResponse"))
        _require_loss(self.epsilon, "epsilon of RandomizedResponse")

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; epsilon is an exact fraction as text."""
        return {
            "kind": "randomized_response",
            "epsilon": str(self.epsilon),
            "options": self.options,
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True, init=False)
class ApproximateDP:
    """Any mechanism of which nothing is known but (epsilon, delta). A guarantee is that of the worst such mechanism.

    The worst one exists: with probability delta it reveals everything, and otherwise it is randomized response
    (docs/proofs/real-noise.md, section 1). So the bounds hold from both sides.

    Attributes:
        epsilon: 0 or more; exact.
        delta: At least 0 and below 1; exact.
        multiplicity: Number of such mechanisms.

    Source: Kairouz, Oh, Viswanath 2015.
    """

    epsilon: Fraction
    delta: Fraction
    multiplicity: int

    def __init__(
        self, epsilon: Fraction | int | str, delta: Fraction | int | str = 0, multiplicity: int = 1
    ) -> None:
        exact = exact_number(epsilon, "epsilon of ApproximateDP")
        if exact < 0:
            raise BudgetError(f"epsilon of ApproximateDP must be 0 or more, got {as_given(epsilon)}.")
        # Epsilon 0 is allowed: with its delta it is a chance of failure and nothing else.
        if exact:
            _require_loss(exact, "epsilon of ApproximateDP")
        _set(self, "epsilon", exact)
        _set(self, "delta", share_of(delta, "delta of ApproximateDP"))
        if 0 < self.delta < _LEAST_DELTA:
            raise BudgetError(
                f"delta of ApproximateDP must be 0, or 1e-300 or more, got {as_given(delta)}. Give 0 or '1e-300'."
            )
        # A finite guarantee at delta 1 would be true and say nothing; the other event shows as no guarantee.
        if self.delta == 1:
            raise BudgetError(
                "delta of ApproximateDP must be below 1, got 1, which promises nothing. Use NonPrivateEvent."
            )
        _set(self, "multiplicity", multiplicity_of(multiplicity, "ApproximateDP"))

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; numbers are exact fractions as text."""
        return {
            "kind": "approximate_dp",
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True, init=False)
class ZCDP:
    """Any mechanism of which nothing is known but rho, its cost in zero-concentrated differential privacy.

    No single mechanism is known to be the worst one at every epsilon. So the two ends of a bound mean different things
    here. The upper end holds for every mechanism with this rho; it comes from Renyi divergences. The lower end is that
    of normal noise with this rho: that is such a mechanism, so that no smaller claim holds for all of them.

    Attributes:
        rho: Above 0; exact.

    Source: Bun, Steinke 2016, Definition 1.1; Canonne, Kamath, Steinke 2020, Proposition 12.
    """

    rho: Fraction

    def __init__(self, rho: Fraction | int | str) -> None:
        _set(self, "rho", parameter_of_noise(rho, "rho of ZCDP"))
        _require_loss(self.rho, "rho of ZCDP")

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; rho is an exact fraction as text."""
        return {"kind": "zcdp", "rho": str(self.rho)}


@dataclass(frozen=True, slots=True, init=False)
class MixtureOfGaussians:
    """A real answer with normal noise, of which a record moves the centre by a random distance.

    Without the record the answer is N(0, variance). With it, it is N(s, variance), where s is one of the sensitivities
    with its probability, drawn anew for every answer, and kept secret. Examples: a record that is in a sample several
    times; a group of persons of whom each is in a Poisson sample or not.

    The answer may also be a vector, if each way moves it by a vector that is no longer than its sensitivity
    (docs/proofs/real-noise.md, section 8). The event is stated under unbounded neighbours. Both the removal and the
    addition of the record are accounted for, and the worse one counts.

    Attributes:
        variance: Of the noise; exact.
        sensitivities: By how much the record may move the answer, each 0 or more; exact.
        probabilities: Of these, in the same order; exact, with sum 1.
        multiplicity: Number of answers, each with its own noise and its own draw.

    Source: Choquette-Choo, Ganesh, Steinke, Thakurta 2023 (arXiv 2310.15526).
    """

    variance: Fraction
    sensitivities: tuple[Fraction, ...]
    probabilities: tuple[Fraction, ...]
    multiplicity: int

    def __init__(
        self,
        variance: Fraction | int | str,
        sensitivities: Sequence[Fraction | int | str],
        probabilities: Sequence[Fraction | int | str],
        multiplicity: int = 1,
    ) -> None:
        _set(self, "variance", parameter_of_noise(variance, "variance of MixtureOfGaussians"))
        moves = _several(sensitivities, "sensitivities of MixtureOfGaussians")
        for move in moves:
            if move < 0:
                raise BudgetError(
                    f"sensitivities of MixtureOfGaussians must be 0 or more, got {as_given(move)}."
                )
            if move:
                _require_loss(move**2 / self.variance, "sensitivity^2 / variance of MixtureOfGaussians")
        shares = _several(probabilities, "probabilities of MixtureOfGaussians")
        if len(shares) != len(moves) or any(share < 0 for share in shares) or sum(shares) != 1:
            raise BudgetError(
                f"probabilities of MixtureOfGaussians must be one number of 0 or more for each of the {len(moves)} "
                f"sensitivities, with sum 1 exactly, got {as_given(probabilities)}. Write them as fractions."
            )
        moved = sum((share for share, move in zip(shares, moves, strict=True) if move), Fraction(0))
        _require_share(moved, "the probability of all sensitivities above 0", moved)
        _set(self, "sensitivities", moves)
        _set(self, "probabilities", shares)
        _set(self, "multiplicity", multiplicity_of(multiplicity, "MixtureOfGaussians"))

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; numbers are exact fractions as text."""
        return {
            "kind": "mixture_of_gaussians",
            "variance": str(self.variance),
            "sensitivities": [str(move) for move in self.sensitivities],
            "probabilities": [str(share) for share in self.probabilities],
            "multiplicity": self.multiplicity,
        }


FurtherRelease: TypeAlias = (
    Gaussian | Laplace | MixtureOfGaussians | RandomizedResponse | ApproximateDP | ZCDP
)


def _require_loss(loss: Fraction, where: str) -> None:
    # Exact fractions, so that a loss at the very end of the range is not refused by a rounding.
    if not _LEAST_LOSS <= loss <= LARGEST_LOSS:
        raise BudgetError(
            f"{where} must lie between 1e-60 and {LARGEST_LOSS}, got {as_given(loss)}. Check the units."
        )


_LEAST_SHARE = Fraction(1, 10**100)
"""Least distance from 0 and from 1 of the probability of a sample. Searches square it in floats: 1e-200 is one, but the
square of 1e-200 would be 0."""

_MOST_PARTS = 1000
"""Sensitivities of a mixture at most: every value of a loss is a sum over them."""


def _require_share(share: Fraction, where: str, given: object) -> None:
    # 0 and 1 themselves are exact cases: nothing is seen, or everything.
    if 0 < min(share, 1 - share) < _LEAST_SHARE:
        raise BudgetError(f"{where} must be 0, 1, or 1e-100 away from both, got {as_given(given)}.")


def _seen(event: "PoissonSampled") -> Fraction:
    """The probability with which a record is in the innermost sample."""
    inner = event.event
    return event.probability * (_seen(inner) if isinstance(inner, PoissonSampled) else 1)


def _several(values: Sequence[Fraction | int | str], where: str) -> tuple[Fraction, ...]:
    # A single text is a sequence too, of digits.
    if isinstance(values, str) or not isinstance(values, Sequence) or not 1 <= len(values) <= _MOST_PARTS:
        raise BudgetError(f"{where} must be a list of 1 to {_MOST_PARTS} numbers, got {as_given(values)}.")
    return tuple(exact_number(value, where) for value in values)


_MOST_RECORDS = 10**12
"""Of a sample whose law is computed from binomial probabilities: their balls keep more than 200 of 256 bits."""


def _require_normal(event: object, sampled: str) -> None:
    if not isinstance(event, Gaussian):
        raise BudgetError(f"{sampled} takes normal noise alone (Gaussian), got {as_given(event)}.")


def _require_one_answer(event: "Sampleable | PoissonSampled", sampled: str) -> None:
    # Answers on one sample are not independent given the record; normal ones are one vector together.
    if event.multiplicity != 1 and not isinstance(event, Gaussian):
        raise BudgetError(
            f"{sampled} takes one answer, got {as_given(event)} with {event.multiplicity} of them that see the same "
            f"sample. Give the multiplicity to {sampled} if each answer has a sample of its own. State the answers "
            "together as ApproximateDP if they share one."
        )


_LARGEST_ETA = 10**6
"""Of the number of runs of a selection: the mean of that number is at most this over gamma, or so."""


_MOST_NESTED: Final = 50
"""Selections inside each other; each one takes some hundredths of a second, and Python ends near 100 of them."""


def _require_repeatable(event: object, selection: str, levels: int = _MOST_NESTED) -> None:
    if not levels:
        raise BudgetError(
            f"{selection} holds {_MOST_NESTED} others inside each other, which is the most. Repeat fewer times."
        )
    for part in event.events if isinstance(event, SequentialEvent) else (event,):
        match part:
            case SequentialEvent():
                _require_repeatable(part, selection, levels)
            case RepeatAndSelect() | PoissonRepeatAndSelect():
                _require_repeatable(part.event, selection, levels - 1)
            case _ if not isinstance(part, Repeatable):
                raise BudgetError(
                    f"{selection} takes releases, one after the other, got {as_given(part)}. Give Gaussian, Laplace, "
                    "RandomizedResponse, ZCDP or a random sample, or a SequentialEvent of them."
                )


Chosen = Literal["adaptive", "public"]


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
        object.__setattr__(self, "multiplicity", multiplicity_of(multiplicity, "DiscreteGaussian"))

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
        object.__setattr__(self, "multiplicity", multiplicity_of(multiplicity, "DiscreteLaplace"))

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
        _require_one_answer(event, "PoissonSampled")
        object.__setattr__(self, "event", event)
        share = share_of(probability, "probability of PoissonSampled")
        # A sample of a sample is one with the product of the probabilities.
        seen = share * (_seen(event) if isinstance(event, PoissonSampled) else 1)
        _require_share(seen, "probability of PoissonSampled, times that of a sample within it,", seen)
        object.__setattr__(self, "probability", share)
        object.__setattr__(self, "multiplicity", multiplicity_of(multiplicity, "PoissonSampled"))

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; the probability is an exact fraction as text."""
        return {
            "kind": "poisson_sampled",
            "event": self.event.to_mapping(),
            "probability": str(self.probability),
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True, init=False)
class SampledWithoutReplacement:
    """A release that sees a random sample of fixed size: every set of so many records is equally likely.

    The event is stated under bounded neighbours: one record changes its value. Nothing is claimed under unbounded ones,
    where the number of records would tell. The sample itself must stay secret.

    The upper bounds are those of the least pair of laws that covers one sample (docs/proofs/real-noise.md, section 9).
    For one sample alone the bounds enclose the truth. For several samples, the lower bounds are those of a record that
    all of them move in the same way: no smaller claim holds. Both ends differ by up to a third of epsilon then.

    Attributes:
        event: What is done with the sample, stated under bounded neighbours: one answer with real or integer noise
            (normal noise also with several answers), randomized response, or pure epsilon.
        sample_size: Number of records in the sample.
        records: Number of all records; public.
        multiplicity: Number of samples, each drawn anew.

    Source: Zhu, Dong, Wang 2022 (subset sampling); Balle, Barthe, Gaboardi 2018, Theorem 9.
    """

    event: "Sampleable"
    sample_size: int
    records: int
    multiplicity: int

    def __init__(self, event: "Sampleable", sample_size: int, records: int, multiplicity: int = 1) -> None:
        if not isinstance(event, Sampleable) or (isinstance(event, ApproximateDP) and event.delta):
            raise BudgetError(
                f"SampledWithoutReplacement takes one release, got {as_given(event)}. Give Gaussian, Laplace, "
                "DiscreteGaussian, DiscreteLaplace, RandomizedResponse, or ApproximateDP with delta 0."
            )
        _require_one_answer(event, "SampledWithoutReplacement")
        _set(self, "event", event)
        _set(self, "sample_size", count_of(sample_size, "sample_size of SampledWithoutReplacement"))
        _set(self, "records", count_of(records, "records of SampledWithoutReplacement"))
        if self.sample_size > self.records:
            raise BudgetError(
                "sample_size of SampledWithoutReplacement must be at most the number of records, got "
                f"{self.sample_size} of {self.records}."
            )
        share = Fraction(self.sample_size, self.records)
        _require_share(share, "sample_size / records of SampledWithoutReplacement", share)
        _set(self, "multiplicity", multiplicity_of(multiplicity, "SampledWithoutReplacement"))

    def to_mapping(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "kind": "sampled_without_replacement",
            "event": self.event.to_mapping(),
            "sample_size": self.sample_size,
            "records": self.records,
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True, init=False)
class SampledWithReplacement:
    """A release with normal noise that sees records drawn one by one, each from all records.

    A record may be drawn several times, and then moves the answer so many times as far. The event is stated under
    bounded neighbours: one record changes its value. The sample itself must stay secret.

    The upper bounds are those of a pair that covers one sample (docs/proofs/real-noise.md, section 10); draws of a
    record that are rarer than 1e-24 together count as revealing everything. The lower bounds are those of a record
    that all samples move in the same way: no smaller claim holds.

    Attributes:
        event: Normal noise, stated under bounded neighbours for a record that is drawn once.
        sample_size: Number of draws.
        records: Number of all records, 2 or more; public.
        multiplicity: Number of samples, each drawn anew.

    Source: Balle, Barthe, Gaboardi 2018, Theorem 10.
    """

    event: Gaussian
    sample_size: int
    records: int
    multiplicity: int

    def __init__(self, event: Gaussian, sample_size: int, records: int, multiplicity: int = 1) -> None:
        _require_normal(event, "SampledWithReplacement")
        _set(self, "event", event)
        _set(self, "sample_size", count_of(sample_size, "sample_size of SampledWithReplacement"))
        _set(self, "records", count_of(records, "records of SampledWithReplacement", least=2))
        if max(self.sample_size, self.records) > _MOST_RECORDS or self.sample_size > 10 * self.records:
            raise BudgetError(
                f"sample_size and records of SampledWithReplacement must be at most {_MOST_RECORDS}, and the former at "
                "most ten times the latter, as a record would be drawn very often, got "
                f"{self.sample_size} and {self.records}."
            )
        _set(self, "multiplicity", multiplicity_of(multiplicity, "SampledWithReplacement"))

    def to_mapping(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "kind": "sampled_with_replacement",
            "event": self.event.to_mapping(),
            "sample_size": self.sample_size,
            "records": self.records,
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True, init=False)
class TruncatedPoissonSampled:
    """A release with normal noise that sees a Poisson sample of the records, or a random part of it if it is large.

    Each record is in the sample with a probability, independently. If there are more than `largest`, so many of them
    are taken at random. Then a record may take the place of another one, so that it moves the answer twice as far.

    The event is stated under unbounded neighbours: one record is added or removed, and both changes are accounted for.
    The sample and its size must stay secret. The upper bounds are those of a pair that covers one sample
    (docs/proofs/real-noise.md, section 11); the lower bounds those of other records that do not move the answer.

    Attributes:
        event: Normal noise, stated under unbounded neighbours.
        probability: Of each record, between 0 and 1; exact.
        largest: Number of records that the release sees at most.
        records: Number of all records, with the one that is added or removed; public.
        multiplicity: Number of samples, each drawn anew.

    Source: arXiv 2508.15089.
    """

    event: Gaussian
    probability: Fraction
    largest: int
    records: int
    multiplicity: int

    def __init__(
        self,
        event: Gaussian,
        probability: Fraction | int | str,
        largest: int,
        records: int,
        multiplicity: int = 1,
    ) -> None:
        _require_normal(event, "TruncatedPoissonSampled")
        _set(self, "event", event)
        share = share_of(probability, "probability of TruncatedPoissonSampled")
        _require_share(share, "probability of TruncatedPoissonSampled", probability)
        _set(self, "probability", share)
        _set(self, "largest", count_of(largest, "largest of TruncatedPoissonSampled"))
        _set(self, "records", count_of(records, "records of TruncatedPoissonSampled"))
        if self.records > _MOST_RECORDS:
            raise BudgetError(
                f"records of TruncatedPoissonSampled must be at most {_MOST_RECORDS}, got {self.records}."
            )
        _set(self, "multiplicity", multiplicity_of(multiplicity, "TruncatedPoissonSampled"))

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; the probability is an exact fraction as text."""
        return {
            "kind": "truncated_poisson_sampled",
            "event": self.event.to_mapping(),
            "probability": str(self.probability),
            "largest": self.largest,
            "records": self.records,
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True, init=False)
class RepeatAndSelect:
    """A mechanism runs a random number of times, and the best of the results alone is released.

    The number of runs K follows the truncated negative binomial law: P(K = k) ~ (1 - gamma)^k times the product of (l +
    eta) / (l + 1) over 0 < l < k, for k = 1, 2, ... Eta 1 is the geometric law, of mean 1 / gamma; 0 the logarithmic
    one. K and the results that are not released must stay secret. "Best" may be any order of the results that does not
    look at the records; a score that looks at them is a release of its own and part of `event`.

    The upper bounds come from Renyi divergences of the event, at every order (docs/proofs/real-noise.md, section 12).
    The lower bounds are those of one run: if all results are equally good, the release is one of them.

    Attributes:
        event: What one run does: releases that have Renyi divergences, one after the other.
        gamma: Between 0 and 1; exact.
        eta: Above -1; exact.
        multiplicity: Number of such selections, each with its own runs.

    Source: Papernot, Steinke 2022, Definition 1 and Theorem 2.
    """

    event: "Repeatable"
    gamma: Fraction
    eta: Fraction
    multiplicity: int

    def __init__(
        self,
        event: "Repeatable",
        gamma: Fraction | int | str,
        eta: Fraction | int | str = 1,
        multiplicity: int = 1,
    ) -> None:
        _require_repeatable(event, "RepeatAndSelect")
        _set(self, "event", event)
        share = share_of(gamma, "gamma of RepeatAndSelect")
        if not _LEAST_SHARE <= share <= 1 - _LEAST_SHARE:
            raise BudgetError(
                f"gamma of RepeatAndSelect must lie between 0 and 1, and 1e-100 away from both, got {as_given(gamma)}. "
                "Leave RepeatAndSelect out if there is one run."
            )
        _set(self, "gamma", share)
        exact = exact_number(eta, "eta of RepeatAndSelect")
        if not -1 < exact <= _LARGEST_ETA:
            raise BudgetError(
                f"eta of RepeatAndSelect must be above -1 and at most {_LARGEST_ETA}, got {as_given(eta)}. "
                "Give 1 for a geometric number of runs."
            )
        _set(self, "eta", exact)
        _set(self, "multiplicity", multiplicity_of(multiplicity, "RepeatAndSelect"))

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; numbers are exact fractions as text."""
        return {
            "kind": "repeat_and_select",
            "event": self.event.to_mapping(),
            "gamma": str(self.gamma),
            "eta": str(self.eta),
            "multiplicity": self.multiplicity,
        }


@dataclass(frozen=True, slots=True, init=False)
class PoissonRepeatAndSelect:
    """The same with a Poisson number of runs. If there is none, nothing is released but that.

    The upper bounds come from Renyi divergences of the event (docs/proofs/real-noise.md, section 12). Nothing is
    claimed from below.

    Attributes:
        event: What one run does: releases that have Renyi divergences, one after the other.
        mean: Mean number of runs, above 0; exact.
        multiplicity: Number of such selections, each with its own runs.

    Source: Papernot, Steinke 2022, Theorem 6.
    """

    event: "Repeatable"
    mean: Fraction
    multiplicity: int

    def __init__(self, event: "Repeatable", mean: Fraction | int | str, multiplicity: int = 1) -> None:
        _require_repeatable(event, "PoissonRepeatAndSelect")
        _set(self, "event", event)
        _set(self, "mean", parameter_of_noise(mean, "mean of PoissonRepeatAndSelect"))
        _set(self, "multiplicity", multiplicity_of(multiplicity, "PoissonRepeatAndSelect"))

    def to_mapping(self) -> dict[str, Any]:
        """JSON form; the mean is an exact fraction as text."""
        return {
            "kind": "poisson_repeat_and_select",
            "event": self.event.to_mapping(),
            "mean": str(self.mean),
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
    `branches_of_one_law` in `accounting/losses.py`, which refuses branches with different laws.

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
        object.__setattr__(
            self, "degree", count_of(self.degree, "degree of ParallelEvent", most=MOST_ANSWERS)
        )

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

Sample: TypeAlias = (
    PoissonSampled | SampledWithoutReplacement | SampledWithReplacement | TruncatedPoissonSampled
)
"""A release that sees a random sample of the records."""

Selection: TypeAlias = RepeatAndSelect | PoissonRepeatAndSelect
"""A mechanism that runs a random number of times, of which the best result is released."""

Release: TypeAlias = (
    DiscreteGaussian
    | DiscreteLaplace
    | IntegerSubspaceLaplace
    | IntegerSubspaceGaussian
    | FurtherRelease
    | Sample
    | Selection
)
Repeatable: TypeAlias = (
    DiscreteGaussian | DiscreteLaplace | FurtherRelease | Sample | Selection | SequentialEvent
)
"""What may run a random number of times."""
PrivacyEvent: TypeAlias = (
    Release | SequentialEvent | AdaptiveEvent | WorstEvent | ParallelEvent | InvariantEvent | NonPrivateEvent
)


def parts_of(event: PrivacyEvent) -> tuple[PrivacyEvent, ...]:
    """The events that an event consists of, one level down; none for a release, an invariant or a non-private act."""
    match event:
        # A sample or a selection counts as a release: its inner event has no cost of its own.
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
