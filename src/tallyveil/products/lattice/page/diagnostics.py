"""Properties of a release's noise that need no data: its spread, and how fast its Markov chain converges."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tallyveil.report.drawing import (
    Box,
    BoxPanel,
    BoxPlot,
    BoxSeries,
    Line,
    LinePanel,
    LinePlot,
    Role,
    write_plot,
)
from tallyveil.report.wording import rounded
from tallyveil.storage.write import write_file
from tallyveil.subspace.mechanisms import GeneralisedGaussian, LatticeLaw
from tallyveil.subspace.noise_plan import PUBLIC_KEY, ChainWay, NoisePlan

MOST_BOXES: Final = 120
"""Cells that the box plot shows, the first ones: more boxes would be narrower than their lines. noise.csv has all."""
_CURVE_POINTS: Final = 200
"""Numbers of sweeps at which the bound is computed; twice as many take twice the time for the same curve."""
_CHAINS: Final = 4
"""Chains of the scale reduction factor; it compares their means, so that 2 are the fewest."""
_STATES: Final = 200
"""States of each of these chains, of which the first half is left out."""


def write_diagnostics(
    out: Path, plan: NoisePlan, labels: Sequence[str], draws: int, plot_format: str = "svg"
) -> tuple[Path, ...]:
    """Write tables and plots of noise that is drawn for this purpose with a public key. No release is read.

    Args:
        out: Folder for the files.
        plan: How the noise is drawn.
        labels: Names of the cells.
        draws: Number of noise vectors to draw, 2 or more.
        plot_format: "svg" or "png".
    Returns:
        Paths of the files: `noise.csv` and its box plot; for a chain also `total-variation.csv`, its plot, and
        `scale-reduction.csv`.
    """
    # A public key: noise of the release stays unknown, and everybody obtains the same diagnostics.
    vectors = plan.draw(PUBLIC_KEY, range(draws))
    written = [out / "noise.csv", out / f"noise.{plot_format}"]
    _write_csv(written[0], noise_table(vectors, labels))
    drawn = noise_plot(vectors[:, :MOST_BOXES], labels[:MOST_BOXES], f"{law_title(plan.law)} ({plan.name})")
    write_plot(written[1], drawn, f"Noise of {draws:,} draws")
    if plan.chain is not None:
        curve = total_variation_curve(plan.chain)
        written += [out / "total-variation.csv", out / f"total-variation.{plot_format}"]
        _write_csv(written[-2], curve)
        write_plot(written[-1], _curve_plot(plan.chain, curve), "Distance of the chain from its law")
        written.append(out / "scale-reduction.csv")
        _write_csv(written[-1], scale_reduction(plan.chain, labels))
    return tuple(written)


def law_title(law: LatticeLaw) -> str:
    """The name of a noise distribution, with its parameter rounded."""
    if isinstance(law, GeneralisedGaussian):
        return f"Gaussian, variance {rounded(float(law.variance))}"
    return f"{law.norm.value} Laplace, ε {rounded(float(law.epsilon))}"


def noise_table(vectors: npt.NDArray[np.int64], labels: Sequence[str]) -> pl.DataFrame:
    """Mean, standard deviation, extremes and quartiles of each cell's noise, and the mean in standard errors."""
    mean, deviation = vectors.mean(axis=0), vectors.std(axis=0, ddof=1)
    # The mean is 0 by symmetry; beyond some 4 standard errors, the sampler would be wrong.
    error = deviation / np.sqrt(len(vectors))
    quartiles = np.quantile(vectors, [0.25, 0.5, 0.75], axis=0)
    return pl.DataFrame(
        {
            "cell": list(labels),
            "mean": mean,
            "mean_in_standard_errors": np.divide(mean, error, out=np.zeros_like(mean), where=error > 0),
            "standard_deviation": deviation,
            "least": vectors.min(axis=0),
            "first_quartile": quartiles[0],
            "median": quartiles[1],
            "third_quartile": quartiles[2],
            "greatest": vectors.max(axis=0),
        }
    )


def boxes(vectors: npt.NDArray[np.int64]) -> tuple[Box, ...]:
    """A box for each cell, with the first draw marked separately."""
    five = np.quantile(vectors, [0, 0.25, 0.5, 0.75, 1], axis=0).T.tolist()
    return tuple(
        Box(low, first, middle, third, high, float(draw))
        for (low, first, middle, third, high), draw in zip(five, vectors[0].tolist(), strict=True)
    )


def noise_plot(vectors: npt.NDArray[np.int64], labels: Sequence[str], label: str) -> BoxPlot:
    """A box plot of the noise of all cells."""
    series = BoxSeries(label, Role.OURS, boxes(vectors))
    return BoxPlot(tuple(labels), (BoxPanel("", (series,)),), "cell", "noise")


def total_variation_curve(chain: ChainWay) -> pl.DataFrame:
    """Bounds on the total variation distance after increasing numbers of sweeps: estimated, and with confidence."""
    from tallyveil.subspace.diagnostics import total_variation_bound

    # Up to the last meeting of a pair: beyond it, the estimate is 0.
    longest = max(chain.bound.sweeps, int(chain.meetings.times.max()) + 1)
    confidence = float(chain.settings.confidence)
    sweeps = np.unique(np.linspace(1, longest, _CURVE_POINTS).astype(np.int64)).tolist()
    bounds = [total_variation_bound(chain.plan, chain.meetings, n, confidence) for n in sweeps]
    return pl.DataFrame(
        {
            "sweeps": sweeps,
            "estimate": [bound.estimate for bound in bounds],
            "measured": [bound.measured for bound in bounds],
            "extrapolated": [bound.extrapolated for bound in bounds],
        }
    )


def scale_reduction(chain: ChainWay, labels: Sequence[str]) -> pl.DataFrame:
    """Potential scale reduction factor of each cell, from chains that start from a distribution twice as wide."""
    from tallyveil.subspace.diagnostics import overdispersed, potential_scale_reduction
    from tallyveil.subspace.mcmc import STARTS, run_chain
    from tallyveil.subspace.mcmc_moves import plan_chain

    wide = plan_chain(overdispersed(chain.plan.law), chain.plan.columns)
    states = []
    for number in range(_CHAINS):
        start = run_chain(wide, PUBLIC_KEY, chain.bound.sweeps, chain=number, part=STARTS)[0]
        run = run_chain(chain.plan, PUBLIC_KEY, _STATES, chain=number, part=STARTS, thin=1, start=start)
        # The first half still remembers the start.
        states.append(run[_STATES // 2 :])
    return pl.DataFrame(
        {"cell": list(labels), "scale_reduction": potential_scale_reduction(np.stack(states))}
    )


def _curve_plot(chain: ChainWay, curve: pl.DataFrame) -> LinePlot:
    x = curve["sweeps"].cast(pl.Float64).to_list()
    kinds = (("estimate", Role.OURS), ("measured", Role.REDUCED), ("extrapolated", Role.OTHER))
    # A logarithmic axis cannot show zero, nor numbers that a float cannot distinguish from zero.
    lines = tuple(Line(name, role, x, curve[name].clip(1e-12, 1.0).to_list()) for name, role in kinds)
    mark = (float(chain.bound.measured), f"measured at {chain.bound.sweeps} sweeps")
    panel = LinePanel(f"{chain.bound.pairs:,} pairs at lag {chain.bound.lag}", lines, (mark,))
    return LinePlot((panel,), 1, "sweeps", "bound on the total variation", log_y=True, y_limits=(1e-6, 1.0))


def _write_csv(path: Path, frame: pl.DataFrame) -> None:
    write_file(path, frame.write_csv)
