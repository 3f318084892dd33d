"""The functions of one row of look-ahead trials, outside of a draw."""

from tallyveil.arrays import Integers
from tallyveil.kernels.compiled import njit
from tallyveil.kernels.subspace.look_ahead import (
    ColumnTables,
    Roots,
    TrialScratch,
    fill_look_ahead,
    fill_weights,
)


@njit(nogil=True, cache=True)
def look_ahead_of(tables: ColumnTables, roots: Roots, m: int, left: Integers, scratch: TrialScratch) -> None:
    """Compute the functions t and s of one row into `scratch`."""
    fill_look_ahead(roots, scratch, fill_weights(tables, m, left, scratch))
