"""Decides without data how a release's noise is drawn, and simulates its margins of error.

Margins of error of counts with lattice noise, and of their sums, from simulated noise.

Problem. For each cell, and for each sum of cells, wanted is a margin m such that the noise is at most m in
absolute value with probability 95 % or more. The noise of a cell has no simple law on most lattices.

Steps. Noise is drawn many times with a public key, and its absolute values are sorted. The margin is the k-th
smallest. The share of the law below it is at least 95 % with 99.9 % confidence for every single margin, if
k - 1 is the 99.9 % quantile of the binomial law of n trials with probability 95 % (a distribution-free
tolerance limit; Wilks 1941).

Worked case. Of n = 1,000 draws, k = 971: the margin is the 30th largest absolute value.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Final, Literal

import numpy as np

from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.events import Neighbours
from tallyveil.accounting.numbers import at_most, delta_text, exact_text
from tallyveil.arrays import Integers
from tallyveil.declared import Declared, Exact, Flag, Whole, left_out
from tallyveil.errors import BudgetError, ConfigError, SolverError
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.storage.json_files import JsonObject
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.mixture import CUT_BITS
from tallyveil.subspace.exact.partial_sums import require_ends
from tallyveil.subspace.guarantee import (
    chain_condition,
    chain_guarantee,
    gaussian_delta,
    laplace_guarantee,
    nearest_tables,
    protected,
)
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.mechanisms import GeneralisedGaussian, LatticeLaw
from tallyveil.subspace.nonnegative import by_tilted_cells

if TYPE_CHECKING:
    from tallyveil.subspace.diagnostics import MeetingTimes, TotalVariationBound
    from tallyveil.subspace.exact.sampler import VectorSampler
    from tallyveil.subspace.mcmc import SweepObserver
    from tallyveil.subspace.mcmc_moves import ChainPlan

SamplerWish = Literal["auto", "exact", "chain"]

PUBLIC_KEY: Final = insecure_key("tallyveil subspace diagnostics")
"""Pairs of chains use no data and no run key, so anyone can measure their meeting times again."""

_PILOT_PAIRS: Final = 200
"""Pairs from which the number of sweeps is chosen. They are others than those that bound its error."""
_FIRST_PAIR: Final = 1 << 20
"""Number of the first such pilot pair, so that pilots share no random bits with the pairs from 0."""
_MARGIN: Final = 3
"""Sweeps of the chain, in units of the longest meeting time of the pilots. More sweeps cost time alone."""


@dataclass(frozen=True, slots=True)
class ChainSettings(Declared):
    """How a chain is run, and how far its law may be from the wanted law.

    Attributes:
        allowed_delta: Largest delta that the chain may add.
        sweeps: Number of sweeps of the chain; None for three times the longest meeting time of 200 pilot pairs.
        pairs: Number of coupled pairs from which the distance is measured.
        longest: Number of sweeps after which a pair is given up.
        confidence: Confidence of the bound on the distance.
        extrapolate: Use the extrapolated bound (docs/subspace.md) instead of the measured one.
        moves: "slices", or "jumps" for Algorithm 1 of the paper.
        lag: Lag of the coupled pairs in sweeps; None to choose one from pilot pairs.
    """

    allowed_delta: Exact = Fraction(1, 10**6)
    sweeps: Whole | None = None
    # The usual moves and lag are left out, so that plans with them keep their digest, and so their noise.
    moves: Annotated[Literal["slices", "jumps"], left_out("slices")] = "slices"
    lag: Annotated[Whole | None, left_out(None)] = None
    pairs: Whole = 4000
    longest: Whole = 20_000
    confidence: Exact = Fraction(999, 1000)
    extrapolate: Flag = False


@dataclass(frozen=True, slots=True, eq=False)
class ChainWay:
    """A chain together with the evidence of its convergence.

    Attributes:
        plan: Law, columns and moves.
        meetings: Meeting times of the pairs that the bound comes from.
        bound: Bound on the total variation after `bound.sweeps` sweeps.
        settings: The settings that were used.
    """

    plan: "ChainPlan"
    meetings: "MeetingTimes"
    bound: "TotalVariationBound"
    settings: ChainSettings


@dataclass(frozen=True, slots=True, eq=False)
class NoisePlan:
    """The method that draws the noise of a release.

    Attributes:
        lattice: The lattice of the noise.
        law: The law of the noise.
        name: Name of the sampler.
        reason: The reason for its choice, for the reader.
        sampler: The exact sampler; None if a chain is used.
        chain: The chain; None if the sampler is exact.
        total_variation: Upper bound on the total variation between the drawn noise and the law.
        restricted: Whether the law is restricted to tables without negative counts. The noise then depends on the true
            table, so that `draw` cannot make it: `subspace.nonnegative` and `subspace.exact.choose_restricted` do.
        largest: Largest count that the released table and the true one may have, between which the guarantee is; None
            for no bound.
    """

    lattice: Lattice
    law: LatticeLaw
    name: str
    reason: str
    sampler: "VectorSampler | None"
    chain: ChainWay | None
    total_variation: Fraction
    restricted: bool = False
    largest: int | None = None

    @property
    def condition(self) -> str:
        """The condition of the bound on the total variation; empty for exact samplers."""
        return (
            "" if self.chain is None else chain_condition(self.chain.bound, self.chain.settings.extrapolate)
        )

    @property
    def steps(self) -> int:
        """Number of steps of one draw that `draw` reports: the sweeps of a chain, or 1."""
        return 1 if self.chain is None else self.chain.bound.sweeps

    def seconds_of_chain(self) -> float:
        """Predicted seconds of one draw by a chain, from a short timed run; 0 for an exact sampler."""
        if self.chain is None:
            return 0.0
        from tallyveil.subspace.mcmc import estimate_seconds

        return estimate_seconds(self.chain.plan, self.chain.bound.sweeps)

    def draw(self, key: bytes, draws: range, advanced: Callable[[int], None] | None = None) -> Integers:
        """Independent noise vectors of the draws with these numbers.

        Args:
            key: 32 bytes.
            draws: Numbers, from 0.
            advanced: Receives the number of sweeps of chains that are finished, part by part.
        Returns:
            int64 [n, n_cells]; every row is in the lattice.
        Privacy: whoever has the key can subtract the noise.
        """
        if self.sampler is not None:
            return self.sampler.draw(NoiseAddress(NoiseSource(key), 0, 0), draws)
        if self.chain is None:
            raise SolverError("A noise plan has neither a sampler nor a chain. Make it with plan_noise.")
        from tallyveil.subspace.mcmc import run_chain

        sweeps = self.chain.bound.sweeps
        states = [run_chain(self.chain.plan, key, sweeps, chain=i, advanced=advanced)[0] for i in draws]
        return np.stack(states) if states else np.empty((0, self.lattice.n_cells), dtype=np.int64)


def plan_restricted(lattice: Lattice, law: LatticeLaw, largest: int | None = None) -> NoisePlan:
    """The plan of a table from the restricted law, which `subspace.nonnegative.require_outputs` has allowed.

    Raises:
        ConfigError: the constraints leave the count of some cell without an end.
    """
    if by_tilted_cells(law, lattice.structure, largest):
        name, how = (
            "restricted trials",
            "trials with tilted cells meet the sums by chance, whatever the counts",
        )
    else:
        if largest is None:
            require_ends(lattice.structure)
        name, how = (
            "partial sums or redraws",
            "dynamic programming over the sums that the first cells leave to the others, or, where the exact sums "
            "leave too many tables for it, free noise that is drawn again until no count is out of bounds",
        )
    cut = Fraction(1, 1 << CUT_BITS) if law.takes_root else Fraction(0)
    reason = f"the law is restricted to {restricted_tables(largest)}; {how}"
    return NoisePlan(lattice, law, name, reason, None, None, cut, restricted=True, largest=largest)


def restricted_tables(largest: int | None) -> str:
    """The tables that a restricted law can give, in words."""
    return "tables without negative counts" if largest is None else f"tables with counts from 0 to {largest}"


def plan_noise(
    lattice: Lattice,
    law: LatticeLaw,
    wish: SamplerWish = "auto",
    settings: ChainSettings | None = None,
    observer: "SweepObserver | None" = None,
) -> NoisePlan:
    """Decide without data how to draw. If a chain is needed, also measure its distance from the law.

    `require_allowed` decides whether that distance is allowed.

    Args:
        lattice: The lattice of the noise.
        law: The law of the noise.
        wish: "auto" uses an exact sampler if there is one, "exact" uses nothing else, "chain" always uses a chain.
        settings: Settings of the chain.
        observer: Receives the number of pairs that are finished.
    Raises:
        SolverError: "exact" is asked for but there is no exact sampler, or a chain's pairs do not meet.
    """
    choice = None if wish == "chain" else choose_sampler(lattice, law)
    if choice is not None and choice.sampler is not None:
        return NoisePlan(
            lattice, law, choice.name, choice.reason, choice.sampler, None, choice.sampler.total_variation
        )
    if wish == "exact":
        raise SolverError(
            f"There is no exact sampler: {choice.reason if choice else ''}. Ask for sampler 'auto' or 'chain', or "
            "change the constraints or the noise law.",
            code="subspace-no-sampler",
        )
    chain = _measured_chain(lattice, law, settings or ChainSettings(), observer)
    reason = choice.reason if choice is not None else "asked for"
    distance = chain.bound.extrapolated if chain.settings.extrapolate else chain.bound.measured
    variation = Fraction(math.nextafter(distance, math.inf))
    if variation >= 1:
        raise SolverError(
            f"Chain of {chain.bound.sweeps} sweeps: no bound on the distance between its law and the target law is "
            "known. Run more sweeps or more pairs of chains.",
            code="subspace-not-converged",
        )
    return NoisePlan(lattice, law, "chain", reason, None, chain, variation)


def require_allowed(
    plan: NoisePlan, squared_distance: int | None = None, delta: Fraction | None = None
) -> None:
    """Refuse a chain that adds more to delta than its settings allow.

    Args:
        plan: The method that draws the noise.
        squared_distance, delta: Squared distance and delta of a Gaussian release.
    Raises:
        SolverError: the chain adds more.
        ConfigError: the law is Gaussian, and the distance or delta is missing.
    """
    if plan.chain is None:
        return
    allowed = plan.chain.settings.allowed_delta
    if not isinstance(plan.law, GeneralisedGaussian):
        extrapolate = plan.chain.settings.extrapolate
        chain_guarantee(plan.law, plan.lattice, plan.chain.bound, allowed, extrapolate=extrapolate)
        return
    if squared_distance is None or delta is None:
        raise ConfigError(
            "A chain for Gaussian noise needs the squared l2 distance and the delta of its guarantee. Give both."
        )
    gaussian_delta(plan.law, squared_distance, delta, plan.total_variation, allowed)


def guarantee_record(
    plan: NoisePlan, distance: Fraction, delta: Fraction, neighbours: Neighbours
) -> JsonObject:
    """The guarantee of a release as plain data, with one sentence.

    Args:
        plan: The method that draws the noise.
        distance: Distance of the protected pairs, in the law's norm; squared for the Gaussian.
        delta: Delta at which the epsilon of Gaussian noise is stated.
        neighbours: The relation under which the budget is declared.
    Raises:
        SolverError: a chain adds more to delta than its settings allow.
        BudgetError: the guarantee would promise nothing.
    """
    require_allowed(plan, int(distance), delta)
    names = list(plan.lattice.system.names)
    nearest = nearest_tables(plan.lattice, plan.law, neighbours)
    record: JsonObject = {
        "law": str(plan.law),
        "invariants": names,
        "distance": str(distance),
        "nearest_tables": {"size_at_least": nearest.at_least, "size_found": nearest.smallest},
        "about_one_record": nearest.one_record,
    }
    who = protected(nearest, plan.law, distance, neighbours, plan.largest)
    if plan.restricted:
        tables = restricted_tables(plan.largest)
        who = (
            f"Epsilon is twice that of the law, because the law is restricted to {tables}, and its normaliser depends "
            f"on the true table. {who}"
        )
    if isinstance(plan.law, GeneralisedGaussian):
        epsilon, whole = gaussian_delta(plan.law, int(distance), delta, plan.total_variation)
        rho = distance / (2 * plan.law.variance)
        said = (
            f"epsilon <= {at_most(epsilon)} at delta = {delta_text(whole)}, by rho = {exact_text(rho)} zCDP, between "
            f"tables at squared l2 distance {distance} or less that agree on the invariants; nothing is promised about "
            f"what the invariants reveal. {who}"
        )
        return record | {
            "rho": str(rho),
            "epsilon": epsilon,
            "delta": fraction_bounds(whole).upper,
            "statement": _said(said, plan),
        }
    guarantee = laplace_guarantee(plan.law, plan.lattice, plan.total_variation, restricted=plan.restricted)
    if plan.chain is not None:
        settings = plan.chain.settings
        guarantee = chain_guarantee(
            plan.law,
            plan.lattice,
            plan.chain.bound,
            settings.allowed_delta,
            extrapolate=settings.extrapolate,
        )
    epsilon_at, delta_at = guarantee.at(distance)
    if delta_at >= 1:
        raise BudgetError(
            f"{plan.law}: the sampler draws it within total variation distance {at_most(plan.total_variation, 3)}, "
            f"which e^epsilon multiplies. At epsilon {at_most(epsilon_at)} this gives delta 1: nothing would be "
            "promised. Wanted a smaller epsilon. Nothing was spent.",
            code="subspace-parameter",
        )
    at_delta = f" at delta = {at_most(delta_at, 3)}" if delta_at else ""
    return record | {
        "norm": plan.law.norm.value,
        "epsilon_by_distance": str(guarantee.epsilon),
        "delta_at_distance_1": fraction_bounds(guarantee.delta).upper,
        "epsilon": fraction_bounds(epsilon_at).upper,
        "delta": delta_at,
        "statement": f"epsilon <= {at_most(epsilon_at)}{at_delta} between tables at {plan.law.norm.value} distance "
        f"{distance} or less: {guarantee.statement()} {who}",
    }


def noise_record(noise: NoisePlan) -> JsonObject:
    """The lattice, the sampler, and the distance of a chain from its target law, as plain data."""
    lattice = noise.lattice
    record: JsonObject = {
        "structure": lattice.structure.kind.value,
        "cells": lattice.n_cells,
        "dimension": lattice.dimension,
        "basis": lattice.basis_kind,
        "notes": list(lattice.notes),
        "sampler": noise.name,
        "reason": noise.reason,
        "total_variation": fraction_bounds(noise.total_variation).upper,
    }
    if noise.chain is not None:
        bound = noise.chain.bound
        record["chain"] = {
            "moves": noise.chain.settings.moves,
            "sweeps": bound.sweeps,
            "lag": bound.lag,
            "pairs": bound.pairs,
            "estimate": bound.estimate,
            "standard_error": bound.standard_error,
            "confidence": bound.confidence,
            "measured": bound.measured,
            "extrapolated": bound.extrapolated,
            "used": "extrapolated" if noise.chain.settings.extrapolate else "measured",
            "allowed_delta": str(noise.chain.settings.allowed_delta),
        }
    return record


def _said(statement: str, plan: NoisePlan) -> str:
    return f"{statement} {plan.condition}" if plan.condition else statement


def _measured_chain(
    lattice: Lattice, law: LatticeLaw, settings: ChainSettings, observer: "SweepObserver | None"
) -> ChainWay:
    from tallyveil.subspace.diagnostics import choose_lag, meeting_times, total_variation_bound
    from tallyveil.subspace.mcmc import tune_jumps
    from tallyveil.subspace.mcmc_moves import basis_columns, lattice_columns, plan_chain

    if settings.moves == "jumps":
        columns = basis_columns(lattice.basis)
        plan = plan_chain(law, columns, tune_jumps(law, columns, PUBLIC_KEY))
    else:
        plan = plan_chain(law, lattice_columns(lattice))
    lag = settings.lag or choose_lag(plan, PUBLIC_KEY, settings.longest)
    sweeps = settings.sweeps
    if sweeps is None:  # from other pairs: a number chosen on the pairs that bound it would be too low
        pilots = meeting_times(
            plan, PUBLIC_KEY, lag, _PILOT_PAIRS, settings.longest, first_pair=_FIRST_PAIR, observer=observer
        )
        sweeps = _MARGIN * int(pilots.times.max())
    meetings = meeting_times(plan, PUBLIC_KEY, lag, settings.pairs, settings.longest, observer=observer)
    bound = total_variation_bound(plan, meetings, sweeps, float(settings.confidence))
    return ChainWay(plan, meetings, bound, settings)


LEVEL: Final = Fraction(19, 20)
"""Probability with which noise stays within a margin."""
CONFIDENCE: Final = Fraction(999, 1000)
"""Probability that one margin, an order statistic of draws, is large enough for `LEVEL`. It holds for each alone."""
MOST_DRAWS: Final = 1000
"""Draws with the public key. Fewer draws make margins wider, as their confidence stays the same."""
_CELLS_AT_ONCE: Final = 1 << 24
"""Most cells of all draws together: tables above 16,777 cells get fewer than 1,000 draws."""
_DRAWS_AT_ONCE: Final = 100
"""Draws that one call of the sampler makes."""


@dataclass(frozen=True, slots=True, eq=False)
class ErrorMargins:
    """Margins of error at `LEVEL`, each with confidence `CONFIDENCE`.

    Attributes:
        draws: Number of simulated noise vectors.
        cells: int64 [n_cells].
        sums: int64 [n_sums]; 0 for a sum that noise does not change.
    """

    draws: int
    cells: Integers
    sums: Integers


def margin_draws(noise: NoisePlan) -> int:
    """Number of noise vectors that `error_margins` simulates."""
    return min(MOST_DRAWS, _CELLS_AT_ONCE // noise.lattice.n_cells)


def error_margins(
    noise: NoisePlan, sums: ConstraintSystem, advanced: Callable[[int], None] | None = None
) -> ErrorMargins | None:
    """Margins of the cells and of some sums of them, without data.

    Args:
        noise: How the noise is drawn.
        sums: The sums.
        advanced: Receives the number of draws that are finished, part by part.
    Returns:
        The margins, or None: under a restricted law errors depend on the table, and a very large table has too many
        cells to simulate.
    """
    draws = margin_draws(noise)
    place = rank(draws)
    if noise.restricted or place is None:
        return None
    vectors = np.empty((draws, noise.lattice.n_cells), dtype=np.int64)
    for first in range(0, draws, _DRAWS_AT_ONCE):
        part = range(first, min(first + _DRAWS_AT_ONCE, draws))
        vectors[part.start : part.stop] = noise.draw(PUBLIC_KEY, part)
        if advanced is not None:
            advanced(len(part))
    return ErrorMargins(draws, _ranked(vectors, place), _ranked(sums.totals(vectors.T).T, place))


def rank(draws: int) -> int | None:
    """The number k of the order statistic of some draws that is the margin; None if the draws are too few."""
    from scipy.stats import binom

    k = int(binom.ppf(float(CONFIDENCE), draws, float(LEVEL))) + 1 if draws else 1
    return k if k <= draws else None


def _ranked(vectors: Integers, place: int) -> Integers:
    return np.asarray(np.partition(np.abs(vectors), place - 1, axis=0)[place - 1], dtype=np.int64)
