"""How long a sweep of draws takes in a large state, and how much memory a chain remembers.

python benchmarks/draws_sweeps.py [--blocks N] [--sweeps N]

Makes the release of a made-up country of so many blocks with 16 cells and a test key. One chain begins at the released
counts. Prints processor time of a sweep that draws the parameters that all areas share, of one that holds them, and of
one that also adds up what is watched, each the mean of some sweeps; and the memory of a segment with its four states.
Chains are not compared: how many sweeps they need is not measured.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import numpy as np

import tallyveil
from tallyveil.api.beginning import write_country
from tallyveil.estimation.posterior import sampling
from tallyveil.estimation.posterior.chain import Chain
from tallyveil.postprocess.draws.model import posterior_of
from tallyveil.postprocess.intervals.model import open_release
from tallyveil.storage.archives import archived


def seconds(work: Callable[[], object], times: int) -> float:
    """Processor time of one of some repetitions."""
    begin = time.process_time()
    work()
    return (time.process_time() - begin) / times


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=100_000)
    parser.add_argument("--sweeps", type=int, default=4)
    arguments = parser.parse_args()
    n = arguments.sweeps
    with tempfile.TemporaryDirectory() as name:
        inputs = Path(name) / "inputs"
        write_country(inputs, blocks=arguments.blocks, schema="race-age")
        release = tallyveil.run(
            inputs / "release.toml", Path(name) / "release", insecure_test_key="benchmark"
        )
        problem, released = posterior_of(open_release(release.path))
        print(f"{problem.n_blocks:,} blocks, {int(released.sum()):,} people")
        chain = Chain.begin(problem, 1, 0, released)
        chain.run(1)  # with any compilation
        print(f"{seconds(lambda: chain.run(n), n):.2f} s a sweep that draws the common parameters")
        chain.is_held = True
        print(f"{seconds(lambda: chain.run(n), n):.2f} s a sweep that holds them")
        of_families = sampling._of_families(problem, chain.state)
        about = np.concatenate([np.zeros(sampling.SUMMARIES), *sampling._coarse(problem, of_families)])
        watched, length = sampling._Watched(chain, about), sampling.STATES
        print(f"{seconds(lambda: watched.run(length, Event()), length):.2f} s a sweep that is watched")
        size = sum(array.nbytes for array in archived(watched.segments[0]).arrays.values())
        print(f"{size / 1e6:.0f} MB a segment of {len(about):,} watched quantities")
    print(
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB at most, with making the release"
    )


if __name__ == "__main__":
    main()
