"""A chain: sweeps of moves, each followed by an update of the prior's parameters."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.random import SFC64, Generator

from tallyveil.arrays import Int32s, Integers, Words
from tallyveil.estimation.posterior.prior import (
    Common,
    Parameters,
    first_parameters,
    kernel_prior,
    reclassed,
    updated,
    with_classes,
)
from tallyveil.estimation.posterior.problem import PosteriorProblem, bits_of
from tallyveil.kernels.posterior.moves import (
    Moved,
    State,
    add_or_remove,
    exchange_blocks,
    shift_between_blocks,
    shift_between_cells,
)

SIBLINGS: Final = 2
"""Pairings of the blocks of a family in a sweep, each for shifts and for exchanges: most of what is unknown is which of
these blocks a person lives in. With one, totals of blocks take a third more sweeps to settle, each of which
takes a fourteenth less time."""

PAIRINGS: Final = 2
"""Pairings of the levels of an attribute in a sweep. Of more than two levels, each two meet now and then only, and what
a tract has of a rare group changes the more slowly."""

FEW: Final = 1 / 64
"""Cells count as rare if they are the rarest ones, with less than this share of all people together."""

FEW_TURNS: Final = 2
"""Additional pairings of blocks in a sweep, at each coarse geolevel, for people of rare cells and of sparse geounits
alone. They are few, so that their block is seldom paired with one where they could live as well."""


@dataclass(slots=True, eq=False)
class Chain:
    """State and parameters of a chain.

    Attributes:
        problem: What is measured.
        key: Key of the chain's randomness, 64 bits. That of a sweep is a function of (key, number, sweep).
        number: Number of the chain.
        sweep: Sweeps done.
        state: The counts.
        parameters: Parameters of the prior.
        is_held: Whether sweeps leave the common parameters as they are.
    """

    problem: PosteriorProblem
    key: int
    number: int
    state: State
    parameters: Parameters
    sweep: int = 0
    is_held: bool = False

    @classmethod
    def begin(cls, problem: PosteriorProblem, key: int, number: int, counts: Int32s) -> "Chain":
        """A chain that begins from a table of counts; raises SolverError if these break a limit."""
        state = problem.state(counts)
        return cls(problem, key, number, state, first_parameters(problem, state))

    def hold(self, common: Common) -> None:
        """Take common parameters, and leave them as they are from now on."""
        self.parameters, self.is_held = replace(self.parameters, common=common), True

    def counts(self) -> Int32s:
        """The present table; shape (blocks, cells)."""
        return self.state.people[:, self.problem.cells].copy()

    def run(self, sweeps: int) -> None:
        """Do some sweeps, each with an update of the parameters."""
        for _ in range(sweeps):
            # The fastest of numpy's generators: half of an update's time goes into random numbers.
            rng = Generator(SFC64([self.key, self.number, self.sweep]))
            self.move(rng)
            self.parameters = updated(rng, self.problem, self.state, self.parameters, is_held=self.is_held)

    def _columns(self, numbers: Int32s) -> Words:
        """Some columns as bits."""
        flags = np.zeros(len(self.problem.step), bool)
        flags[numbers] = True
        return bits_of(flags)

    def _rare(self) -> Integers:
        """The rarest cells, by the shares of the whole area."""
        groups = self.problem.kernel.steps.group
        # Where some totals are open, there are two whole areas.
        share = np.prod(self.parameters.shares[-1][:, groups], axis=1).max(axis=0)
        order = np.argsort(share, kind="stable")
        return order[np.cumsum(share[order]) < FEW]

    def move(self, rng: Generator) -> None:
        """Do the moves of one sweep. Of the parameters, only the classes of blocks change: two blocks that exchange
        their people exchange them too, and once they are drawn again.
        """
        problem, state = self.problem.kernel, self.state
        # A copy, since exchanges change it.
        self.parameters = replace(self.parameters, block_class=self.parameters.block_class.copy())
        prior = kernel_prior(self.problem, self.parameters)
        coarser = range(2, len(problem.tree.ancestor))
        cells = self._columns(problem.steps.group[-1])
        moved = Moved(cells, cells, self.problem.is_sparse)
        same, turns = self.problem.same_cells, self.problem.turns
        for _ in range(SIBLINGS):
            shift_between_blocks(rng, problem, prior, state, 1, moved, same[1])
            exchange_blocks(rng, problem, prior, state)
        for row in coarser:
            shift_between_blocks(rng, problem, prior, state, row, moved, same[row])
        of_few = moved._replace(cells=self._columns(problem.steps.group[-1, self._rare()]))
        for row in coarser[1:]:
            for _ in range(FEW_TURNS):
                shift_between_blocks(rng, problem, prior, state, row, of_few, same[row])
        if self.problem.is_limited:
            # Limits may leave a block with cells that its siblings do not have: people then change both at once.
            # Those where limits do so at every sweep, the others in turns.
            for number in sorted({*self.problem.limited, self.sweep % len(turns)}):
                for row in [1, *coarser]:
                    shift_between_blocks(rng, problem, prior, state, row, moved, turns[number][row])
        # The people of a block and its class hold each other where they are. So it is drawn here, too, and not only
        # with the other parameters.
        self.parameters = reclassed(rng, self.problem, state, self.parameters)
        prior = with_classes(self.problem, prior, self.parameters.block_class)
        for of_blocks, *_ in turns:
            for _ in range(PAIRINGS if of_blocks.size > 2 else 1):
                shift_between_cells(rng, problem, prior, state, of_blocks)
        add_or_remove(rng, problem, prior, state)
        self.sweep += 1
