"""Chooses the exact sampler for a lattice and a law, and says why.

Problem. Several exact methods exist, and each is fast on some lattices only. The choice must not use data.

Steps. The first of these that applies is used.
1. l2 Laplace law: a mixture of Gaussians, whose trials come from split sums, from nearest planes with a tensor basis,
   or from the fastest trials.
2. Two-way table with two rows or columns: dynamic programming.
3. Every block of like cells sums to zero: split sums.
4. Other two-way tables, also behind other constraints (`two_way_grid`): look-ahead trials, if their tables take little
   time.
5. Gaussian law whose nearest-planes trials provably succeed often enough: nearest planes.
6. Trials that meet the constraints by chance.
7. Look-ahead trials whose tables take longer.
Otherwise no exact sampler is chosen, and a Markov chain is needed. Trials are used if pilot trials with a public key
succeed often enough.

The order is that of the measured time of a release: the tables, one draw, and a thousand draws for its error margins.

Stopping rule. Pilot trials double until three succeed, or until the rate is known to be too low.

Worked case. A table whose only invariant is its total is one block that sums to zero, so split sums are chosen.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tallyveil.errors import BudgetError, SolverError
from tallyveil.noise.key import insecure_key
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace, Law
from tallyveil.subspace.constraints import StructureKind
from tallyveil.subspace.exact.column_tables import LARGEST_WORK, planned_work
from tallyveil.subspace.exact.convolution import SumLaws
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.look_ahead import look_ahead_proposal, sided, two_column_sampler
from tallyveil.subspace.exact.mixture import CUT_BITS, mixture_sampler
from tallyveil.subspace.exact.nearest_planes import (
    NearestPlanesProposal,
    nearest_planes,
    planes_of,
    tensor_orthogonalised,
    tensor_shape,
)
from tallyveil.subspace.exact.sampler import (
    Proposal,
    TrialSampler,
    VectorSampler,
    acceptance_rate,
    block_proposal,
    split_sampler,
    two_way_proposal,
)
from tallyveil.subspace.exact.two_way_grid import two_way_grid
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, LatticeLaw

MOST_EXPECTED_TRIALS: Final = 1e5
"""If a draw is expected to need more trials than this, a chain is the better method."""

LEAST_PLANES_ACCEPTANCE: Final = 1 / 64
"""Nearest planes are used if a trial provably succeeds with at least this probability."""

LARGEST_PLANES_DIMENSION: Final = 64
"""The same for a lattice whose basis is reduced: this takes the cube of the dimension, in fractions that grow."""

LARGEST_TENSOR_DIMENSION: Final = 1 << 13
"""The same for a tensor basis, which is known in closed form."""

QUICK_WORK: Final = 1 << 26
"""Look-ahead trials come first if all transforms for their tables have at most so many entries: about a second."""

QUICK_MIXTURE_WORK: Final = 1 << 20
"""The same for the tables of a typical Gaussian, if the l2 law is drawn. It needs tables for tens of Gaussians, some of
them several times as large."""

LARGEST_MIXTURE_WORK: Final = 1 << 23
"""If the tables of a typical Gaussian are larger, look-ahead trials are not used for the l2 law."""

MOST_ESTIMATED_TRIALS: Final = 1 << 12
"""If a draw by rows is estimated to need more trials than this, no pilot trials are made."""

_LEAST_TYPICAL_ACCEPTANCE: Final = 0.5
"""Narrower Gaussians accept less, but the mixture rarely asks for them (see `_is_wide`)."""

_PILOT_TRIALS: Final = 4096
"""Trials of the first round of pilots, fewer for tables of many cells. Rounds double until 3 trials succeed."""
_PILOTS: Final = 32
"""Rounds at most. In practice `_PILOT_CELLS` ends them earlier."""
_PILOT_CELLS: Final = 1 << 25
"""Cells of all trials of one round. It bounds the time and memory that a hopeless proposal can take."""

_LOOK_AHEAD: Final = "look-ahead trials"
_BY_ROWS: Final = "trials by rows"
_BY_SUMS: Final = "trials by block sums"
_LOOK_AHEAD_PILOT_CELLS: Final = 1 << 21
"""Number of cells in all pilot look-ahead trials: some seconds, if none succeeds."""


@dataclass(frozen=True, slots=True)
class SamplerChoice:
    """The method that draws the noise, and why it was chosen.

    Attributes:
        sampler: The exact sampler, or None if a chain is needed.
        name: Short name.
        reason: The reason in words, for the report.
        expected_trials: Expected number of trials of one draw, estimated without data; 1 if no trial fails.
    """

    sampler: VectorSampler | None
    name: str
    reason: str
    expected_trials: float

    @property
    def total_variation(self) -> Fraction | None:
        """Bound on the distance of the output from the law, for the guarantee; None if a chain is needed."""
        return None if self.sampler is None else self.sampler.total_variation


def choose_sampler(
    lattice: Lattice,
    law: LatticeLaw,
    most_trials: float = MOST_EXPECTED_TRIALS,
    *,
    cut_bits: int = CUT_BITS,
) -> SamplerChoice:
    """Choose an exact sampler without using data.

    Args:
        lattice: The lattice of the noise.
        law: The law of the noise.
        most_trials: Largest acceptable expected number of trials of one draw.
        cut_bits: The l2 law is cut off where its mass is below 2**-cut_bits.
    Returns:
        The choice. It has no sampler if no exact method is fast enough.
    Raises:
        BudgetError: the noise of a cell would be narrower or wider than any that is drawn.
    """
    if isinstance(law, GeneralisedLaplace):
        with cells_of(law):
            return _chosen(lattice, law, most_trials, cut_bits)
    return _chosen(lattice, law, most_trials, cut_bits)


@contextmanager
def cells_of(law: GeneralisedLaplace) -> Iterator[None]:
    """A law of cells that is refused is refused as the law of the lattice, which is what was asked for."""
    try:
        yield
    except BudgetError as error:
        size = "large" if law.epsilon > 1 else "small"
        raise BudgetError(
            f"{law}: epsilon is too {size} for an exact draw on this lattice, where the noise of one cell would be "
            f"{'narrower' if law.epsilon > 1 else 'wider'} than any that is drawn. Wanted an epsilon nearer to 1. "
            "Nothing was spent.",
            code="subspace-parameter",
        ) from error


def _chosen(lattice: Lattice, law: LatticeLaw, most_trials: float, cut_bits: int) -> SamplerChoice:
    if isinstance(law, GeneralisedLaplace) and law.takes_root:
        return _l2_laplace(lattice, law, most_trials, cut_bits)
    cell = _cell_law(law)
    if lattice.structure.kind is StructureKind.TWO_WAY and 2 in lattice.structure.grid.shape:
        sampler = two_column_sampler(cell, lattice.structure, lattice.n_cells)
        reason = "a two-way table with two columns is one sum of its rows at twice the rate"
        return SamplerChoice(sampler, "dynamic programming", reason, 1.0)
    if lattice.structure.sums_vanish:
        split = split_sampler(cell, lattice.structure, lattice.n_cells)
        kind = lattice.structure.kind.value
        reason = f"{kind}: every block of like cells sums to zero; blocks are split by tables of sums"
        return SamplerChoice(split, "split sums", reason, 1.0)
    return _by_trials(lattice, law, SumLaws(cell), most_trials)


def _by_trials(lattice: Lattice, law: LatticeLaw, laws: SumLaws, most_trials: float) -> SamplerChoice:
    ways = _ways(lattice, laws.law, QUICK_WORK, LARGEST_WORK)
    planes = None if ways[:1] == [_LOOK_AHEAD] else _planes(lattice, law)
    if planes is not None:
        share = f"{planes.least_acceptance:.2g}"
        reason = f"a Gaussian above the threshold of nearest planes: a share of at least {share} of trials succeeds"
        expected = 1 / acceptance_rate(planes, _public(), 64)
        return SamplerChoice(TrialSampler(planes, lattice.n_cells), "nearest planes", reason, expected)
    quickest = _quickest(lattice, laws, most_trials, ways)
    if quickest is None:
        return _chain(lattice, law, most_trials)
    proposal, name, expected = quickest
    how = "meet the constraints by chance"
    if name == _LOOK_AHEAD:
        how = "draw row by row, with the weight that the other rows can give to each column,"
    reason = f"no closed form; trials that {how} succeed once in about {expected:.3g}"
    return SamplerChoice(TrialSampler(proposal, lattice.n_cells), name, reason, expected)


def _l2_laplace(
    lattice: Lattice, law: GeneralisedLaplace, most_trials: float, cut_bits: int
) -> SamplerChoice:
    # A Gaussian with this variance concentrates its radius in the same place as the Laplace law.
    typical = Fraction(max(lattice.dimension, 1)) / law.epsilon**2
    make: Callable[[SumLaws], Proposal]
    shape = None if lattice.dimension > LARGEST_TENSOR_DIMENSION else tensor_shape(lattice)
    if lattice.structure.sums_vanish:
        name, expected = "mixture of split sums", 2.0

        def make(laws: SumLaws) -> Proposal:
            return block_proposal(laws, lattice.structure, lattice.n_cells)
    elif shape is not None and two_way_grid(lattice) is None and _is_wide(shape, typical):
        name, expected, form = "mixture of nearest planes", 4.0, tensor_orthogonalised(shape)

        def make(laws: SumLaws) -> Proposal:
            assert isinstance(laws.law, DiscreteGaussian)
            return planes_of(form, laws.law.variance)
    else:
        laws = SumLaws(DiscreteGaussian(typical))
        ways = _ways(lattice, laws.law, QUICK_MIXTURE_WORK, LARGEST_MIXTURE_WORK)
        quickest = _quickest(lattice, laws, most_trials / 4, ways)
        if quickest is None:
            return _chain(lattice, law, most_trials)
        name, expected = f"mixture of {quickest[1]}", 4 * quickest[2]
        make = _maker(lattice, quickest[1])
    sampler = mixture_sampler(law, lattice.n_cells, make, cut_bits)
    reason = (
        f"the l2 law is a mixture of {len(sampler.components)} Gaussians, each exact; "
        f"its tail beyond a total variation of 2**-{cut_bits} is cut"
    )
    return SamplerChoice(sampler, name, reason, expected)


def _is_wide(shape: tuple[int, ...], variance: Fraction) -> bool:
    """Whether at least half of the trials of a typical Gaussian succeed. Those of narrower Gaussians are rare."""
    return planes_of(tensor_orthogonalised(shape), variance).least_acceptance >= _LEAST_TYPICAL_ACCEPTANCE


def _quickest(
    lattice: Lattice, laws: SumLaws, most_trials: float, ways: list[str]
) -> tuple[Proposal, str, float] | None:
    """The first kind of trials that needs at most `most_trials` expected trials, or None."""
    for name in ways:
        try:
            proposal = _maker(lattice, name)(laws)
        except (
            SolverError
        ):  # coefficients or tables are too large, so this method does not work for the system
            continue
        rate = _rate(proposal, lattice.n_cells, most_trials)
        if rate and 1 / rate <= most_trials:
            return proposal, name, 1 / rate
    return None


def _ways(lattice: Lattice, law: Law, quick: int, largest: int) -> list[str]:
    """The kinds of trials that suit a lattice, in the order in which they are tried.

    Look-ahead trials come first if the work for their tables is at most `quick`, and are left out above `largest`.
    """
    grid = two_way_grid(lattice)
    if grid is None:
        return [_BY_SUMS]
    try:
        grid, laws = sided(grid, law)
    except SolverError:  # cells that stand for several have so little noise that no law is made for it
        return [_BY_SUMS]
    work = planned_work(laws)
    first = _BY_ROWS if lattice.structure.kind is StructureKind.TWO_WAY else _BY_SUMS
    if work <= quick:
        return [_LOOK_AHEAD, first]
    # The noise is wide. Then a column of independent rows is 0 with a probability of about 1 / sqrt(rows) of a cell's.
    n_rows, n_columns = grid.moving.shape
    few = n_rows ** ((n_columns - 1) / 2) <= MOST_ESTIMATED_TRIALS
    ways = [first] if few or first == _BY_SUMS else []
    return [*ways, _LOOK_AHEAD] if work <= largest else ways


def _maker(lattice: Lattice, name: str) -> Callable[[SumLaws], Proposal]:
    grid = two_way_grid(lattice) if name == _LOOK_AHEAD else None

    def make(laws: SumLaws) -> Proposal:
        if grid is not None:
            return look_ahead_proposal(laws.law, grid, lattice.structure.free, lattice.n_cells)
        build = two_way_proposal if name == _BY_ROWS else block_proposal
        return build(laws, lattice.structure, lattice.n_cells)

    return make


def _rate(proposal: Proposal, n_cells: int, most_trials: float) -> float:
    """Estimated probability that a trial succeeds; 0 if so few of many trials succeed that it is too low."""
    if proposal.trials_at_once == 1:
        return _look_ahead_rate(proposal, n_cells)
    n = max(64, min(_PILOT_TRIALS, (1 << 20) // n_cells))
    for doubling in range(_PILOTS):
        if n << doubling > _PILOT_CELLS // n_cells:
            return 0.0
        rate = acceptance_rate(proposal, _public(), n << doubling)
        if rate * (n << doubling) >= 3 or n << doubling > 8 * most_trials:
            return rate
    return 0.0


def _look_ahead_rate(proposal: Proposal, n_cells: int) -> float:
    n = 4
    while n * n_cells <= _LOOK_AHEAD_PILOT_CELLS:
        rate = acceptance_rate(proposal, _public(), n)
        if rate * n >= 3:
            return rate
        n *= 2
    return 0.0


def _planes(lattice: Lattice, law: LatticeLaw) -> NearestPlanesProposal | None:
    if not isinstance(law, GeneralisedGaussian) or lattice.structure.kind is StructureKind.TWO_WAY:
        return None
    largest = LARGEST_PLANES_DIMENSION if tensor_shape(lattice) is None else LARGEST_TENSOR_DIMENSION
    if lattice.dimension > largest:
        return None
    proposal = nearest_planes(lattice, law.variance)
    return proposal if proposal.least_acceptance >= LEAST_PLANES_ACCEPTANCE else None


def _chain(lattice: Lattice, law: LatticeLaw, most_trials: float) -> SamplerChoice:
    reason = (
        f"{lattice.structure.kind.value}, dimension {lattice.dimension}: no exact sampler is expected to succeed "
        f"within {most_trials:.3g} trials for {law}; use a chain, whose distance from the law goes into the guarantee"
    )
    return SamplerChoice(None, "chain", reason, float("inf"))


def _cell_law(law: LatticeLaw) -> Law:
    if isinstance(law, GeneralisedGaussian):
        return DiscreteGaussian(law.variance)
    return DiscreteLaplace(1 / law.epsilon)


def _public() -> NoiseAddress:
    from tallyveil.noise.source import NoiseSource

    # The key is public, because pilot trials read no data and their noise is discarded.
    return NoiseAddress(NoiseSource(insecure_key("rate of trials")), 0, 0)
