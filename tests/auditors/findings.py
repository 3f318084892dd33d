"""What an auditor finds, and the error level of the whole suite."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.commands import NotCheckedError

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


Found = dict[str, Any]
"""A finding as a line of JSON: the fields of `Finding`, `refuted`, and `seconds` of the processor."""

JUDGES: Final = {
    ".draws.npz": {"Kolmogorov"},
    ".pair.npz": {
        "DP-Sniper", "Delta-Siege", "hockey-stick tester", "Renyi tester", "MMD tester", "sequential f-DP",
        "right guesses", "jax-privacy", "privacy-estimates",
    },
}  # fmt: skip
"""The auditors that judge every file of outputs with such a name."""


def refuse_gaps(findings: Sequence[Found], folder: Path) -> None:
    """Refuse findings on a folder of outputs that some auditor did not judge.

    Raises:
        NotCheckedError: There are no outputs, an auditor is missing for one of them, or a number is none.
    """
    wanted = {
        (path.name.removesuffix(end), judge)
        for end, judges in JUDGES.items()
        for path in folder.glob(f"*{end}")
        for judge in judges
    }
    missing = wanted - {(one["target"], one["auditor"]) for one in findings}
    if not wanted or missing:
        said = (
            ", ".join(f"{target} by {judge}" for target, judge in sorted(missing)) or "there are no outputs"
        )
        raise NotCheckedError(f"{folder}: not audited: {said}")
    for one in findings:
        if math.isnan(one["found"]) or math.isnan(one["claimed"]):
            raise NotCheckedError(
                f"{folder}: {one['auditor']} found {one['found']} for {one['target']}, wanted a number"
            )
