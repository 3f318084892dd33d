"""Runs our own auditors on a folder of outputs; prints a line of JSON for each finding.

    python -m tests.auditors.audit FOLDER [--rungs 1000 10000]

It needs numpy and scipy, and none of the audited code. With rungs, every auditor first sees only so many outputs on
each side, then more, then all, until it refutes: this shows how many a fault takes. It also writes the scores of the
half that was not learnt from, for the auditors of others.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
from tests.auditors import auditorium, guesses, kolmogorov, sequential, sniper, statdp
from tests.auditors.classifier import train
from tests.auditors.findings import Finding
from tests.auditors.outputs import Draws, Outputs


def main() -> None:
    """Audit every file of the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rungs", nargs="*", type=int, default=())
    asked = parser.parse_args()
    for path in sorted(asked.folder.glob("*.draws.npz")):
        draws = Draws.read(path)
        _climb(asked.rungs, draws.values.size, partial(_judged_draws, draws))
    for path in sorted(asked.folder.glob("*.pair.npz")):
        outputs = Outputs.read(path)
        for auditor in _auditors(outputs):
            _climb(asked.rungs, len(outputs.first), partial(_judged, auditor, outputs))
        _write_scores(outputs, asked.folder)


def _auditors(outputs: Outputs) -> list[Callable[[Outputs], list[Finding]]]:
    """The auditors that apply; StatDP tests claims of pure differential privacy only."""
    found = [
        sniper.audit,
        lambda one: [auditorium.hockey_stick(one)],
        lambda one: [auditorium.renyi(one)],
        lambda one: [auditorium.discrepancy(one)],
        sequential.audit,
        lambda one: [guesses.audit(one)],
    ]
    return found + ([lambda one: [statdp.audit(one)]] if math.isfinite(outputs.claim.pure) else [])


def _climb(rungs: Sequence[int], whole: int, audit: Callable[[int], list[Finding]]) -> None:
    """Print the findings of the first rung at which a claim is refuted, or of all outputs."""
    for number in [*(rung for rung in rungs if rung < whole), whole]:
        begun = time.process_time()
        findings = audit(number)
        if number == whole or any(finding.refuted for finding in findings):
            seconds = (time.process_time() - begun) / len(findings)
            for finding in findings:
                print(
                    json.dumps({**asdict(finding), "refuted": finding.refuted, "seconds": seconds}),
                    flush=True,
                )
            return


def _judged_draws(draws: Draws, number: int) -> list[Finding]:
    """What the first draws show."""
    return [kolmogorov.audit(replace(draws, values=draws.values[:number]))]


def _judged(auditor: Callable[[Outputs], list[Finding]], outputs: Outputs, number: int) -> list[Finding]:
    """What the first outputs show."""
    names = ("first", "second", "first_scores", "second_scores")
    return auditor(replace(outputs, **{name: getattr(outputs, name)[:number] for name in names}))


def _write_scores(outputs: Outputs, folder: Path) -> None:
    """Scores of the second half of the outputs: of the documented noise, and of a classifier of the first half."""
    half = len(outputs.first) // 2
    model = train(outputs.first[:half], outputs.second[:half])
    np.savez(
        folder / f"{outputs.name}.scores.npz",
        first=np.stack([outputs.first_scores[half:], model.scores(outputs.first[half:])]),
        second=np.stack([outputs.second_scores[half:], model.scores(outputs.second[half:])]),
        delta=outputs.claim.delta,
        epsilon=outputs.claim.epsilon,
    )


if __name__ == "__main__":
    main()
