"""The relation between two populations that a guarantee must not tell apart."""

from enum import StrEnum

from tallyveil.errors import BudgetError
from tallyveil.exact import as_given


class Neighbours(StrEnum):
    """The relation under which two populations are neighbours.

    BOUNDED: one record changes its value; the number of records stays the same, since the record leaves a cell and
    enters another. The 2020 Census used this one, within a state.

    UNBOUNDED: one record is added or removed.

    A *partition query* counts each record in at most one of its answers, by one. Every cost in this package starts
    from this table:

    | relation | answers that move | squared L2 sensitivity | L1 sensitivity |
    |---|---|---|---|
    | bounded | two, by one each | 2 | 2 |
    | unbounded | one, by one | 1 | 1 |

    So the same noise costs twice as much rho, or epsilon, under bounded neighbours. An (epsilon, delta) under one
    relation says nothing about the other one until it is translated (`accounting/translation.py`).

    Source: Cumings-Menon et al. 2023, Lemma 4 (bounded); Dwork and Roth 2014, section 2.3.
    """

    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"

    @property
    def answers_moved(self) -> int:
        """Number of answers of a partition query that move, each by one; also its L1 and squared L2 sensitivity."""
        return 2 if self is Neighbours.BOUNDED else 1

    @classmethod
    def of(cls, value: "Neighbours | str") -> "Neighbours":
        """The relation that is given itself, or by its name: "bounded" or "unbounded".

        Raises:
            BudgetError: it is neither.
        """
        if isinstance(value, str) and value in tuple(cls):
            return cls(value)
        raise BudgetError(
            f"neighbours must be 'bounded' (one record changes its value) or 'unbounded' (one record is added or "
            f"removed), got {as_given(value)}. Give the relation that the sensitivities of the events are stated under."
        )
