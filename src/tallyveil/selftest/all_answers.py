"""All known answers, in the order in which they depend on one another."""

from collections.abc import Iterator

from tallyveil.selftest.algorithms import cipher_answers, hash_answers
from tallyveil.selftest.answers import KnownAnswer
from tallyveil.selftest.costs import accounting_answers
from tallyveil.selftest.draws import noise_answers
from tallyveil.selftest.releases import table_answers, topdown_answers


def known_answers(*, topdown: bool) -> Iterator[KnownAnswer]:
    """Every known answer and that of this machine, one after the other.

    Args:
        topdown: Whether a TopDown release is made as well.
    Raises:
        TallyveilError: a release could not be made.
    """
    yield from cipher_answers()
    yield from hash_answers()
    yield from noise_answers()
    yield from accounting_answers()
    yield from table_answers()
    if topdown:
        yield from topdown_answers()
