"""What an auditor finds, and the error level of the whole suite."""

from dataclasses import dataclass
from typing import Final

SUITE_LEVEL: Final = 1e-3
"""Probability, at most, that the suite refutes any true claim."""

MOST_TESTS: Final = 200
"""Number of tests among which the level is divided. The runner refuses to make more."""

LEVEL: Final = SUITE_LEVEL / MOST_TESTS
"""Level of a single test."""


@dataclass(frozen=True)
class Finding:
    """The result of one test of one claim.

    Attributes:
        auditor: Who tested.
        target: The audited mechanism.
        quantity: What is bounded, such as "epsilon at delta 0.01".
        claimed: The claimed value.
        found: The bound: the claim is refuted if it is above the claimed value.
        samples: Outputs that were used, on both populations together. A test that stops early uses fewer than it has.
        note: A remark, such as the set of outputs; may be empty.
    """

    auditor: str
    target: str
    quantity: str
    claimed: float
    found: float
    samples: int
    note: str = ""

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted."""
        return self.found > self.claimed
