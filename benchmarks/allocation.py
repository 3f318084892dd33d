"""Blocks by a model against TopDown: errors of the blocks of Rhode Island, whose counts are public.

python benchmarks/allocation.py ../shared/data [--keys 1]

Makes the example's release without bounds with test keys, then estimates the blocks again from the same measurements
with `blocks = "allocation"`. Prints processor time, mean absolute errors of block totals and of the sum over cells,
empty blocks published with people, and blocks with people published empty.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from draws import ROOT, true_counts

import tallyveil
from tallyveil.files.histograms import read_histogram
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.intervals.model import FinishedRelease, open_release
from tallyveil.postprocess.measured import open_measurements

NAMES = (
    "total",
    "total where people live",
    "cells",
    "empty blocks with people",
    "people in empty blocks",
    "blocks made empty",
    "their people",
    "children where at most 2 % of 50 or more are",
)


def released(release: FinishedRelease) -> np.ndarray:
    """The published counts of every block; shape (blocks, cells)."""
    finest = read_histogram(
        release.root, release.spine.geolevels[release.spine.finest], release.schema, release.spine
    )
    return finest.dense(0, finest.n_geounits, release.schema.size)


def measures(counts: np.ndarray, truth: np.ndarray, children: np.ndarray) -> Sequence[float]:
    """What `NAMES` says, of published counts."""
    total, true = counts.sum(axis=1), truth.sum(axis=1)
    adult = (true >= 50) & (truth[:, children].sum(axis=1) <= 0.02 * true)
    return (
        np.abs(total - true).mean(),
        np.abs(total - true)[true > 0].mean(),
        np.abs(counts - truth).sum(axis=1).mean(),
        int(((true == 0) & (total > 0)).sum()),
        int(total[true == 0].sum()),
        int(((true > 0) & (total == 0)).sum()),
        int(true[total == 0].sum()),
        int(counts[adult][:, children].sum()),
    )


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--keys", type=int, default=1)
    arguments = parser.parse_args()
    rows: list[tuple[Sequence[float], Sequence[float]]] = []
    for key in range(1, arguments.keys + 1):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            text = (ROOT / "examples/rhode_island/release.toml").read_text()
            (folder / "release.toml").write_text(
                text.replace("../../../shared/data", str(arguments.data.resolve()))
            )
            usual = tallyveil.run(
                folder / "release.toml", folder / "usual", insecure_test_key=f"benchmark-{key}"
            ).path
            measured = open_measurements(usual)
            finest, steps = measured.plan.estimation[-1]
            estimation = (*measured.plan.estimation[:-1], (finest, replace(steps, method="allocation")))
            begin = time.process_time()
            model = estimate_release(measured, folder / "model", estimation, workers=1).path
            print(f"key {key}: {time.process_time() - begin:.0f} s of processor time to estimate and publish")
            release = open_release(usual)
            truth = true_counts(release, arguments.data / "ri_2010_counts.parquet")
            children = release.schema.query("voting_age").answers_of(np.arange(release.schema.size)) == 0
            of_usual, of_model = (
                measures(released(open_release(path)), truth, children) for path in (usual, model)
            )
            rows.append((of_usual, of_model))
            print(measures(truth, truth, children)[-1], "children in truth")
    means = np.array(rows, dtype=float).mean(axis=0)
    print("| | TopDown, tree | allocation | ratio |")
    for what, before, after in zip(NAMES, *means, strict=True):
        print(f"| {what} | {before:,.2f} | {after:,.2f} | {after / before:.3f} |")


if __name__ == "__main__":
    main()
