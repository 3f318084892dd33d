"""Runs the package privacy-estimates (Microsoft) on scores. It needs that package and numpy.

    python with_privacy_estimates.py FOLDER LEVEL

The package bounds epsilon from the numbers of right and wrong guesses of an attack, by Clopper-Pearson bounds. The
threshold of the guesses is chosen here, on one half of the scores; the package judges the other half.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from privacy_estimates import AttackResults, compute_eps_lo

Scores = NDArray[np.float64]


def bound(first: Scores, second: Scores, threshold: float, delta: float, level: float) -> float:
    """The package's lower bound, of guesses that a score above the threshold belongs to the second population."""
    hits, false = int((second > threshold).sum()), int((first > threshold).sum())
    counts = AttackResults(FN=second.size - hits, FP=false, TN=first.size - false, TP=hits)
    return float(compute_eps_lo(count=counts, delta=delta, alpha=level, method="beta"))


def audit(first: Scores, second: Scores, delta: float, level: float) -> float:
    """Choose on the first half, judge on the second."""
    half = first.size // 2
    grid = np.unique(
        np.quantile(np.concatenate([first[:half], second[:half]]), np.linspace(0.001, 0.999, 80))
    )
    chosen = max(grid.tolist(), key=lambda one: bound(first[:half], second[:half], one, delta, level))
    return bound(first[half:], second[half:], chosen, delta, level)


def main(folder: Path, level: float) -> None:
    """Print a line of JSON for each file of scores."""
    for path in sorted(folder.glob("*.scores.npz")):
        begun = time.process_time()
        with np.load(path, allow_pickle=False) as stored:
            first, second = stored["first"], stored["second"]
            delta, claimed = float(stored["delta"]), float(stored["epsilon"])
        found = max(audit(first[kind], second[kind], delta, level / 2) for kind in (0, 1))
        finding = {
            "auditor": "privacy-estimates",
            "target": path.name.removesuffix(".scores.npz"),
            "quantity": f"epsilon at delta {delta:g}",
            "claimed": claimed,
            "found": found,
            "samples": 4 * first.shape[1],
            "note": "",
            "refuted": bool(found > claimed),
            "seconds": time.process_time() - begun,
        }
        print(json.dumps(finding), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
