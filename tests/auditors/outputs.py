"""What an auditor is given: outputs of a mechanism on two neighbouring populations, and what is claimed of it.

Auditors read files and nothing else, so that they run where the audited software is not installed.
"""

from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Claim:
    """What the audited software claims. Every number is the end of its bounds that is claimed.

    Attributes:
        epsilons: Some epsilons, ascending from 0.
        deltas: The claimed delta at each.
        delta: The delta at which epsilon is reported.
        epsilon: The claimed epsilon there.
        mu: The claimed mu: no test does better than one of N(0, 1) against N(mu, 1). Infinite if none is claimed.
        renyi: The claimed Renyi divergence of order 2.
        pure: The epsilon claimed at delta 0; infinite if none is claimed.
        epsilon_at_release: The epsilon claimed at delta 1e-10, which releases report.
    """

    epsilons: Floats
    deltas: Floats
    delta: float
    epsilon: float
    mu: float
    renyi: float
    pure: float
    epsilon_at_release: float

    @property
    def total_variation(self) -> float:
        """The claimed total variation: delta at epsilon 0."""
        return float(self.deltas[0])


@dataclass(frozen=True, eq=False)
class Outputs:
    """Outputs on two neighbouring populations, in the order in which they were drawn.

    Attributes:
        name: The audited mechanism.
        first: Outputs on the first population, one row for each independent run.
        second: Outputs on the second.
        first_scores: For each of these, the logarithm of how much likelier it is on the second population than on the
            first, under the documented noise.
        second_scores: The same.
        claim: What is claimed.
    """

    name: str
    first: Integers
    second: Integers
    first_scores: Floats
    second_scores: Floats
    claim: Claim

    def write(self, folder: Path) -> None:
        """Write a file of arrays."""
        arrays = {name: getattr(self, name) for name in ("first", "second", "first_scores", "second_scores")}
        np.savez(folder / f"{self.name}.pair.npz", **arrays, **asdict(self.claim))

    @classmethod
    def read(cls, path: Path) -> "Outputs":
        """Read such a file."""
        with np.load(path, allow_pickle=False) as stored:
            numbers = {one.name: stored[one.name] for one in fields(Claim)}
            claim = Claim(**{name: n if n.ndim else float(n) for name, n in numbers.items()})
            sides, scores = (
                (stored["first"], stored["second"]),
                (stored["first_scores"], stored["second_scores"]),
            )
            return cls(path.name.removesuffix(".pair.npz"), sides[0], sides[1], scores[0], scores[1], claim)


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of a sampler.

    Attributes:
        name: The sampler.
        kind: "gaussian" or "laplace".
        parameter: The variance or the scale.
        values: The draws.
    """

    name: str
    kind: str
    parameter: float
    values: Integers

    def write(self, folder: Path) -> None:
        """Write a file of arrays."""
        np.savez(
            folder / f"{self.name}.draws.npz",
            values=self.values,
            parameter=self.parameter,
            kind=np.array(self.kind),
        )

    @classmethod
    def read(cls, path: Path) -> "Draws":
        """Read such a file."""
        with np.load(path, allow_pickle=False) as stored:
            name = path.name.removesuffix(".draws.npz")
            return cls(name, str(stored["kind"]), float(stored["parameter"]), stored["values"])
