"""Integrals to many digits, by Arb's adaptive rule with its own bound of the error."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from flint import acb, arb
from mpmath import mp, mpc, mpf

PIECES: Final = 24
"""Parts of a range, which the rule then halves where it must. Over all of it, the bound at once would be useless."""


def ball(value: Any) -> acb:
    """A number of mpmath, as it is up to the digits at work."""
    value = mpc(value)
    return acb(arb(mp.nstr(value.real, mp.dps)), arb(mp.nstr(value.imag, mp.dps)))


def number(value: acb) -> mpc:
    """The middle of a ball, which must be far more exact than the digits at work need."""
    assert float(value.rad()) <= 10.0**-25 * (1 + float(abs(value).mid()))
    return mpc(*(mpf(part.mid().str(mp.dps + 5, radius=False)) for part in (value.real, value.imag)))


def integral_of(term: Callable[[acb, bool], acb], low: Any, high: Any) -> acb:
    """The integral of a function that is analytic where its second argument says that it must be."""
    low, step = acb(low), (acb(high) - acb(low)) / PIECES
    ends = [low + step * k for k in range(PIECES + 1)]
    return sum((acb.integral(term, *pair, abs_tol=arb(10) ** -45) for pair in pairwise(ends)), acb(0))
