"""Which tables may come out of a release: all integer tables with the invariants, or those without negative counts."""

from enum import StrEnum
from typing import Final

from tallyveil.errors import ConfigError
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.mechanisms import GeneralisedLaplace, LatticeLaw, Norm
from tallyveil.subspace.structure import StructureKind

LARGEST_RESTRICTED: Final = 4096
"""Largest number of cells of a table that is drawn from a restricted law. A draw of this size takes about a minute."""


class Outputs(StrEnum):
    """The tables that may come out.

    FREE: the true table plus noise, which may have negative counts. Unbiased.
    NONNEGATIVE: after the noise, the nearest table without negative counts and with the same invariants. It is
        post-processing, which costs nothing and is biased.
    RESTRICTED: a law on the tables without negative counts and with the same invariants. It costs twice as much.
    """

    FREE = "free"
    NONNEGATIVE = "nonnegative"
    RESTRICTED = "restricted"


def require_outputs(outputs: Outputs, law: LatticeLaw, lattice: Lattice) -> None:
    """Refuse outputs that cannot be made exactly for a law and a lattice. No data is read.

    Raises:
        ConfigError: no exact method makes these outputs.
    """
    structure = lattice.structure
    if outputs is Outputs.RESTRICTED:
        if not isinstance(law, GeneralisedLaplace) or law.norm is not Norm.L1:
            raise _refused(
                outputs,
                f"the law is {law}, and the restricted law is drawn exactly for the Laplace law in the l1 norm only",
                'Use law = "laplace" and norm = "l1", or outputs = "nonnegative".',
            )
        if not structure.sums_vanish:
            raise _refused(
                outputs,
                f"the constraints are {structure.kind.value}, and the restricted law is drawn exactly only where the "
                "invariants fix the sum of every group of cells that they treat alike",
                'Use outputs = "nonnegative" or "free", or fewer constraints.',
            )
        if lattice.n_cells > LARGEST_RESTRICTED:
            raise _refused(
                outputs,
                f"the table has {lattice.n_cells:,} cells, and a draw from the restricted law would take too long for "
                f"more than {LARGEST_RESTRICTED:,}",
                'Use outputs = "nonnegative" or "free", or a smaller table.',
            )
    if (
        outputs is Outputs.NONNEGATIVE
        and not structure.sums_vanish
        and structure.kind is not StructureKind.TWO_WAY
    ):
        raise _refused(
            outputs,
            f"the constraints are {structure.kind.value}, and the nearest table without negative counts is found "
            "exactly only for two-way margins and where the invariants fix the sum of every group of cells that they "
            "treat alike",
            'Use outputs = "free", or fewer constraints.',
        )


def _refused(outputs: Outputs, why: str, advice: str) -> ConfigError:
    return ConfigError(
        f'[mechanism] outputs is "{outputs.value}", but {why}. {advice} Nothing was read or spent.',
        code="subspace-outputs",
    )
