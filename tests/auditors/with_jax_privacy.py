"""Runs the auditor of the package jax-privacy (Google DeepMind) on scores. It needs that package and numpy.

    python with_jax_privacy.py FOLDER LEVEL

The package takes scores of outputs with and without a person. It splits them, chooses a threshold on one part, and
bounds epsilon from below by Clopper-Pearson bounds on the other.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from jax_privacy.auditing import CanaryScoreAuditor, Split


def main(folder: Path, level: float) -> None:
    """Print a line of JSON for each file of scores."""
    for path in sorted(folder.glob("*.scores.npz")):
        begun = time.process_time()
        with np.load(path, allow_pickle=False) as stored:
            first, second = stored["first"], stored["second"]
            delta, claimed = float(stored["delta"]), float(stored["epsilon"])
        # Two kinds of scores, and two bounds in each: each gets a quarter of the level.
        found = [
            CanaryScoreAuditor(second[kind], first[kind]).epsilon_clopper_pearson(
                level / 4, delta, one_sided=False, threshold_strategy=Split(seed=1)
            )
            for kind in (0, 1)
        ]
        finding = {
            "auditor": "jax-privacy",
            "target": path.name.removesuffix(".scores.npz"),
            "quantity": f"epsilon at delta {delta:g}",
            "claimed": claimed,
            "found": float(max(found)),
            "samples": 4 * first.shape[1],
            "note": "",
            "refuted": bool(max(found) > claimed),
            "seconds": time.process_time() - begun,
        }
        print(json.dumps(finding), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
