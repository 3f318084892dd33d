"""Releases that keep invariants exactly, through noise on the lattice of the invariants.

Their guarantee depends on the distance of two populations. An event states the largest distance of the pairs that it
protects, which are pairs that agree on the named invariants. There is no default. Under bounded neighbours a changed
record moves two cells by one each (l1 distance 2, squared l2 distance 2). But invariants may rule such a change out,
and then the nearest pairs that agree on them are farther apart.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from tallyveil.accounting.exact import count_of, exact_number, parameter_of_noise
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given


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
