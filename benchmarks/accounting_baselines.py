"""The accountants that the census paper names, beside ours, on its eight geolevels: Koskela, Gopi, Edgeworth.

python benchmarks/accounting_baselines.py [--rounds 3]

Written from the papers, in doubles and without refinements of our own, on one core:

- Koskela, Jaelkoe, Honkela 2020: losses rounded up to a grid, one FFT over a fixed range. An upper value.
- Gopi, Lee, Wutschitz 2021: losses rounded to the nearest point and shifted so that the mean is kept; its interval
  of epsilon by their Theorem 5.5 (an error of epsilon from the mesh, with a probability added to delta).
- Wang, Gao, Zhang, Shen, Su 2022: the Edgeworth expansion of the losses' distribution functions, to the fourth
  cumulant. An estimate.

Gopi's mesh is the same as Koskela's, so that both take one FFT of the same length.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from accounting import compositions
from scipy.optimize import brentq
from scipy.special import ndtr

from tallyveil.accounting import DiscreteGaussian, Neighbours, compose
from tallyveil.arrays import Floats

RANGE = 80.0
"""Losses from minus this to this are kept."""
MESHES = (2e-3, 1e-4)
DELTAS = ("1e-5", "1e-10", "1e-13")
ADDED = 1e-2
"""Probability that Gopi's interval adds to delta, as a part of the delta that is asked for."""


def losses(variance: Fraction) -> tuple[Floats, Floats]:
    """Losses of one answer of sensitivity 1, and their probabilities under the shifted law."""
    v = float(variance)
    reach = math.ceil(14 * math.sqrt(v)) + 1
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-(x**2) / (2 * v))
    return (2 * x + 1) / (2 * v), weights / weights.sum()


def composed(events: tuple[DiscreteGaussian, ...], mesh: float, *, keep_mean: bool) -> tuple[Floats, Floats]:
    """Grid and law of the sum of all losses: one FFT over the range."""
    size = 2 ** math.ceil(math.log2(2 * RANGE / mesh))
    transform = np.ones(size // 2 + 1, dtype=np.complex128)
    shift = 0.0
    for event in events:
        at, law = losses(event.variance)
        place = np.round(at / mesh) if keep_mean else np.ceil(at / mesh)
        if keep_mean:
            shift += event.multiplicity * float(law @ (at - mesh * place))
        grid = np.zeros(size)
        np.add.at(grid, place.astype(np.int64) % size, law)
        transform *= np.fft.rfft(grid) ** event.multiplicity
    masses = np.fft.irfft(transform, size)
    order = np.fft.fftshift(np.arange(size))
    points = np.where(order < size // 2, order, order - size) * mesh + shift
    return points, masses[order]


def epsilon_of(points: Floats, law: Floats, delta: float) -> float:
    """The epsilon at which E(1 - exp(epsilon - L))+ is delta; nan if rounding hides it."""

    def excess(epsilon: float) -> float:
        above = points > epsilon
        return float(((1 - np.exp(epsilon - points[above])) * law[above]).sum()) - delta

    return float(brentq(excess, 0, RANGE - 1, xtol=1e-10)) if excess(0) > 0 > excess(RANGE - 1) else math.nan


def koskela(events: tuple[DiscreteGaussian, ...], delta: float, mesh: float) -> tuple[float, float]:
    epsilon = epsilon_of(*composed(events, mesh, keep_mean=False), delta)
    return math.nan, epsilon


def gopi(events: tuple[DiscreteGaussian, ...], delta: float, mesh: float) -> tuple[float, float]:
    points, law = composed(events, mesh, keep_mean=True)
    n = sum(event.multiplicity for event in events)
    error = mesh * math.sqrt(n / 2 * math.log(12 / (ADDED * delta)))
    lower = epsilon_of(points, law, delta * (1 + ADDED)) - error
    return lower, epsilon_of(points, law, delta * (1 - ADDED)) + error


def edgeworth(events: tuple[DiscreteGaussian, ...], delta: float, _: float) -> tuple[float, float]:
    total = np.zeros(4)
    for event in events:
        at, law = losses(event.variance)
        mean = float(law @ at)
        second, third, fourth = (float(law @ (at - mean) ** power) for power in (2, 3, 4))
        total += event.multiplicity * np.array([mean, second, third, fourth - 3 * second**2])
    mean, second, third, fourth = total.tolist()
    skew, excess = third / second**1.5, fourth / second**2

    def above(threshold: float, centre: float, sign: float) -> float:
        z = (threshold - centre) / math.sqrt(second)
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        terms = sign * skew / 6 * (z**2 - 1) + excess / 24 * (z**3 - 3 * z)
        terms += skew**2 / 72 * (z**5 - 10 * z**3 + 15 * z)
        return float(ndtr(-z)) + density * terms

    def gap(epsilon: float) -> float:
        # Under the other law the loss has the law of its negative.
        return above(epsilon, mean, 1) - math.exp(epsilon) * above(epsilon, -mean, -1) - delta

    root = float(brentq(gap, 0, RANGE, xtol=1e-10)) if gap(0) > 0 > gap(RANGE) else math.nan
    return root, root


def exact(events: tuple[DiscreteGaussian, ...], delta: float, _: float) -> tuple[float, float]:
    bounds = compose(*events, neighbours=Neighbours.UNBOUNDED).epsilon(delta)
    return bounds.lower, bounds.upper


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    everything = tuple(
        event for event in compositions()["eight levels"] if isinstance(event, DiscreteGaussian)
    )
    state = min(everything, key=lambda event: event.variance)
    kinds: list[tuple[str, Callable[..., tuple[float, float]], float]] = [("ours", exact, 0.0)]
    kinds += [(f"Koskela, mesh {mesh:g}", koskela, mesh) for mesh in MESHES]
    kinds += [(f"Gopi, mesh {mesh:g}", gopi, mesh) for mesh in MESHES]
    kinds += [("Edgeworth", edgeworth, 0.0)]
    for title, events in (("all geolevels", everything), ("State", (state,))):
        for text in DELTAS:
            truth = exact(events, float(text), 0.0)
            print(f"{title}, delta {text}: epsilon in [{truth[0]:.12f}, {truth[1]:.12f}]")
            for name, accountant, mesh in kinds:
                show(name, lambda: accountant(events, float(text), mesh), truth, rounds)  # noqa: B023 (called at once)


def show(name: str, call: Callable[[], tuple[float, float]], truth: tuple[float, float], rounds: int) -> None:
    """Print how far both ends are from the truth, and the time of a call."""
    spent, ends = [], (math.nan, math.nan)
    for _ in range(rounds):
        start = time.process_time()
        ends = call()
        spent.append(1000 * (time.process_time() - start))
    away = [
        f"{end:5} {value - true:+.1e}"
        for end, value, true in zip(("lower", "upper"), ends, truth, strict=True)
    ]
    print(f"  {name:22} {'  '.join(away)}  {statistics.median(spent):8.2f} ms")


if __name__ == "__main__":
    main()
