"""Markov chains on the lattice, for laws that no exact sampler covers, and their random bits.

*Random bits* of chains are a pure function of key, part, chain and sweep. An address is a block of AES-256,
as in `tallyveil.noise.address`, under a key derived for one plan of chains:

    bytes 0 to 7     low word = sweep * blocks + block, where `blocks` is the number of blocks of one sweep
    bytes 8 to 15    high word: kind 4 bits (15) | part 8 | chain 52        (the kind in the highest bits)

So a chain can be continued from any sweep, in chunks of any length, and two chains never use the same bits.

*The chains.* Problem. Wanted is a lattice vector whose law is close to a given law.

Steps. A chain starts at zero. In a sweep it moves along each column of a set of lattice vectors: by slice
sampling, or by random jumps that Metropolis' rule accepts or rejects. The chain uses no data, so its state
reveals nothing about the table. But the law of the state is not exactly the wanted law.
`tallyveil.subspace.diagnostics` bounds the distance, and the guarantee includes it.

Stopping rule. The number of sweeps is fixed in advance.

Source: Dharangutte, Gao, Gong, Yu 2022, Algorithm 1.
"""

import math
import time
from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError, SolverError
from tallyveil.kernels.subspace.chain import (
    Bits,
    ColumnArrays,
    JumpArrays,
    Keep,
    LevelLaw,
    jump_sweeps,
    slice_sweeps,
)
from tallyveil.noise.key import derive_key, require_key
from tallyveil.noise.source import CHUNK_BLOCKS, Keystream
from tallyveil.subspace.mcmc_moves import ChainColumns, ChainPlan, JumpMoves, SliceMoves, plan_chain
from tallyveil.subspace.mechanisms import LatticeLaw

CHAINS: Final = 15
"""Kind of an address, its four highest bits: no other purpose may use this number."""
SINGLE: Final = 0
"""Part: the chain whose state is kept."""
WARM_UP: Final = 1
"""Part: the chains that tune the jumps. Other bits than a release uses, so tuning cannot depend on its noise."""
LEAD: Final = 2
"""Part: the sweeps by which the leading chain of a pair is ahead."""
COUPLED: Final = 3
"""Part: the sweeps that both chains of a pair make together."""
STARTS: Final = 4
"""Part: chains from spread starts, for the scale reduction of the diagnostics."""

_PART_BITS: Final = 8
"""With the kind (4) and the chain (52), the parts fill the high word of 64 bits exactly, so addresses never collide."""
_CHAIN_BITS: Final = 52
"""See `_PART_BITS`: one bit more would run into the part."""


class ChainStream:
    """Random words for the sweeps of chains. Only one caller may use it at a time.

    Attributes:
        per_sweep: Number of 64-bit words of a sweep, even.
        chunk: Largest number of sweeps in one call.

    Privacy: whoever holds the key can subtract the noise drawn with it. It is never shown.

    Raises:
        ConfigError: the key is not 32 bytes.
    """

    __slots__ = ("_keystream", "chunk", "per_sweep")

    def __init__(self, key: bytes, plan_digest: bytes, words_per_sweep: int) -> None:
        require_key(key, "Chain: key")
        blocks = (words_per_sweep + 1) // 2
        self.per_sweep = 2 * blocks
        self.chunk = max(1, CHUNK_BLOCKS // blocks)
        cipher = Cipher(algorithms.AES(derive_key(key, "subspace-chain", plan_digest)), modes.ECB())
        self._keystream = Keystream(cipher.encryptor(), self.chunk * blocks)

    def __repr__(self) -> str:
        return "ChainStream(key=<redacted>)"

    def words(self, part: int, chain: int, first: int, sweeps: int) -> npt.NDArray[np.uint64]:
        """The words of some sweeps. The next call overwrites them.

        Args:
            part: Purpose of the chain.
            chain: 0 to 2**52 - 1.
            first: First sweep, from 0.
            sweeps: Number of sweeps, at most `chunk`.
        Returns:
            uint64 [sweeps * per_sweep].
        Raises:
            ConfigError: a number is out of range.
        """
        if not (0 <= chain < 1 << _CHAIN_BITS and 0 <= part < 1 << _PART_BITS and 0 <= first < 1 << 40):
            raise ConfigError(
                f"Chain address: got part {part}, chain {chain}, sweep {first}; wanted a part from 0 to 255, a chain "
                "below 2**52 and a sweep below 2**40. Number chains from 0."
            )
        blocks = self.per_sweep // 2
        n = sweeps * blocks
        addresses = self._keystream.addresses
        addresses[0 : 2 * n : 2] = np.arange(first * blocks, first * blocks + n, dtype=np.uint64)
        addresses[1 : 2 * n : 2] = np.uint64((CHAINS << _PART_BITS | part) << _CHAIN_BITS | chain)
        self._keystream.encrypt(n)
        return self._keystream.words[: 2 * n]


_WARM_UP_SWEEPS: Final = 400
"""Sweeps of a warm-up chain for each round. They tune how well a chain mixes, never which law it has."""
_WARM_UP_ROUNDS: Final = 14
"""Rounds of bisection on the logarithm of the width: 14 leave 1/16384 of the interval."""
_ACCEPTED_MANY: Final = 0.25
"""Share of accepted proposals that is aimed at where several columns move at once."""
_ACCEPTED_ONE: Final = 0.45
"""The same where one column moves at a time: in one dimension larger rates mix better."""
_TIMED_SWEEPS: Final = 64
"""Sweeps that are timed to estimate the duration of a run: many, so that the cost of the call does not matter."""


class SweepObserver(Protocol):
    """Receives the progress of chains: numbers of sweeps, never states."""

    def stage_started(self, stage: str, total: int) -> None:
        """Chains start; `total` is the number of sweeps in all."""
        ...

    def advanced(self, amount: int) -> None:
        """`amount` more sweeps are finished."""
        ...

    def stage_finished(self, stage: str, seconds: float) -> None:
        """All sweeps are finished."""
        ...


def run_chain(
    plan: ChainPlan,
    key: bytes,
    sweeps: int,
    *,
    chain: int = 0,
    part: int = SINGLE,
    thin: int | None = None,
    start: npt.ArrayLike | None = None,
    advanced: Callable[[int], None] | None = None,
) -> Integers:
    """Run one chain and keep every `thin`-th state.

    The states are a pure function of plan, key, part, chain and start. A state kept after l sweeps has the law that a
    bound at l sweeps refers to. Later states are closer to the wanted law, but depend on the earlier ones.

    Args:
        plan: Law, columns and moves.
        key: 32 bytes.
        sweeps: Total number of sweeps, rounded up to a multiple of `thin`.
        chain: Number of the chain, from 0; it is part of the address of its random bits.
        part: Purpose of the chain, so that warm-ups and releases use different random bits.
        thin: Number of sweeps between kept states; by default only the last state is kept.
        start: int [n_cells], in the lattice; zero by default.
        advanced: Receives the number of sweeps that are finished, part by part.
    Returns:
        int64 [kept, n_cells].
    Raises:
        SolverError: fewer than one sweep is asked for, or the start has the wrong shape or is beyond the chain's range.
    Privacy: whoever has the key can subtract the last state.
    """
    if sweeps < 1 or (thin is not None and thin < 1):
        raise SolverError(
            f"Chain: got {sweeps} sweeps, of which every {thin}th is kept; wanted 1 or more of both numbers.",
            code="subspace-chain-range",
        )
    stride = sweeps if thin is None else thin
    states = np.empty((-(-sweeps // stride), plan.columns.n_cells), dtype=np.int64)
    state = chain_start(plan, start)
    stream = ChainStream(key, plan.digest, plan.words)
    for done in range(0, states.shape[0] * stride, stream.chunk):
        now = min(stream.chunk, states.shape[0] * stride - done)
        words = stream.words(part, chain, done, now)
        sweep_chain(plan, words, stream.per_sweep, now, state, done=done, thin=stride, samples=states)
        if advanced is not None:
            advanced(now)
    return states


def sweep_chain(
    plan: ChainPlan,
    words: npt.NDArray[np.uint64],
    per_sweep: int,
    sweeps: int,
    state: Integers,
    *,
    done: int = 0,
    thin: int = 0,
    samples: Integers | None = None,
) -> int:
    """Advance an extended state in place. Returns the number of accepted proposals (sweeps x columns for slices).

    Args:
        words: [sweeps * per_sweep], random bits.
        done, thin, samples: Number of earlier sweeps, thinning, and the array for kept states; see the kernels.
    """
    out = np.empty((0, plan.columns.n_cells), dtype=np.int64) if samples is None else samples
    law, columns = chain_arrays(plan)
    bits, keep = Bits(words, per_sweep, sweeps), Keep(done, thin, out)
    if isinstance(plan.moves, SliceMoves):
        slice_sweeps(law, columns, bits, state, keep)
        return sweeps * plan.columns.n_columns
    return int(jump_sweeps(law, columns, jump_arrays(plan), bits, state, keep))


def chain_arrays(plan: ChainPlan) -> tuple[LevelLaw, ColumnArrays]:
    """The law and the columns of a plan, as the kernels take them."""
    target, columns = plan.target, plan.columns
    return (
        LevelLaw(target.kind, target.scale, target.limit, target.thresholds, target.guide),
        ColumnArrays(
            columns.starts, columns.ends, columns.rows, columns.steps, columns.pivots, columns.n_cells
        ),
    )


def jump_arrays(plan: ChainPlan) -> JumpArrays:
    """The jump laws of a plan, as the kernels take them."""
    jumps = plan.jumps
    return JumpArrays(plan.jump_law, jumps.masses, jumps.totals, jumps.finders, plan.block)


def chain_start(plan: ChainPlan, start: npt.ArrayLike | None) -> Integers:
    """An extended state to advance: a copy of `start`, or zeros. Its coordinates start at zero.

    Raises:
        SolverError: the shape or type is wrong, or the start is beyond the chain's range.
    """
    state = np.zeros(plan.columns.n_rows, dtype=np.int64)
    if start is None:
        return state
    vector = np.asarray(start)
    if vector.shape != (plan.columns.n_cells,) or vector.dtype.kind not in "iu":
        raise SolverError(
            f"Chain start: got shape {vector.shape} and type {vector.dtype}, wanted {plan.columns.n_cells} integers.",
            code="subspace-chain-range",
        )
    state[: vector.size] = vector
    size = float((np.abs(vector.astype(np.float64)) ** (2 if plan.target.kind else 1)).sum())
    if size > plan.target.limit:
        raise SolverError(
            f"Chain start: its largest absolute value is {size:.3g}, wanted at most {plan.target.limit}. Start "
            "nearer to zero.",
            code="subspace-chain-range",
        )
    return state


def tune_jumps(
    law: LatticeLaw, columns: ChainColumns, key: bytes, *, at_once: int | None = None
) -> JumpMoves:
    """Choose the scales of double-geometric jumps in a warm-up without data.

    A column's scale follows from the law along it. One common factor is found by bisection on its logarithm, so that
    about a quarter of the joint proposals are accepted (45 % for proposals along single columns). The rate is measured
    where the law has its mass: each trial starts from a state that slice moves, which need no tuning, have reached. The
    states of the warm-up are discarded, and its random bits are used by no other chain.

    Args:
        law: The law that the chains should follow.
        columns: The columns to move along.
        key: 32 bytes.
        at_once: Number of columns in one proposal; None for all.
    Source: Roberts, Gelman, Gilks 1997 (a quarter in many dimensions).
    """
    lengths = np.sqrt(columns.squares()) if law.squares else columns.absolutes().astype(np.float64)
    spread = 1 / float(law.rate) if law.takes_root or not law.squares else float(2 * law.rate) ** -0.5
    widths = spread / lengths
    wanted = _ACCEPTED_ONE if at_once == 1 else _ACCEPTED_MANY
    low, high = math.log(0.06 / float(widths.min())), math.log(8.0)
    typical = run_chain(plan_chain(law, columns), key, _WARM_UP_SWEEPS, part=WARM_UP)[0]
    for round_ in range(_WARM_UP_ROUNDS):
        middle = (low + high) / 2
        # Inside the 0.05 to 1e5 that `jump_laws` takes, also after the rounding to three digits.
        scales = np.clip(widths * np.exp(middle), 0.06, 9e4)
        moves = JumpMoves(tuple(round(scale, 3) for scale in scales.tolist()), at_once)
        plan = plan_chain(law, columns, moves)
        stream = ChainStream(key, plan.digest, plan.words)
        state = chain_start(plan, typical)
        accepted = done = 0
        while done < _WARM_UP_SWEEPS:
            now = min(stream.chunk, _WARM_UP_SWEEPS - done)
            accepted += sweep_chain(
                plan, stream.words(WARM_UP, round_, done, now), stream.per_sweep, now, state
            )
            done += now
        rate = accepted / (_WARM_UP_SWEEPS * plan.slacks_per_sweep)
        low, high = (middle, high) if rate > wanted else (low, middle)
    return moves


def estimate_seconds(plan: ChainPlan, sweeps: int) -> float:
    """Predicted seconds of a chain on this machine, from a short timed one. It compiles the kernels if necessary."""
    # Well-spread words from no key: they serve for timing alone, and no state that they lead to is kept.
    words = np.zeros(plan.words * _TIMED_SWEEPS, dtype=np.uint64)
    words += np.arange(words.size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state = chain_start(plan, None)
    sweep_chain(plan, words, plan.words, 1, state)
    began = time.perf_counter()
    sweep_chain(plan, words, plan.words, _TIMED_SWEEPS, state)
    return (time.perf_counter() - began) / _TIMED_SWEEPS * sweeps
