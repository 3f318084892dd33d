"""What was done to privacy, as data, and what it costs: events, zCDP and pure costs, the ledger."""

from tallyveil.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    InvariantEvent,
    NonPrivateEvent,
    ParallelEvent,
    PrivacyEvent,
    SequentialEvent,
    event_from_mapping,
)
from tallyveil.accounting.exact import exact_text
from tallyveil.accounting.ledger import Declaration, Ledger, LedgerEntry, read_ledger
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.accounting.zcdp import (
    epsilon_of,
    rho_of,
    zcdp_to_delta,
    zcdp_to_epsilon,
    zcdp_to_epsilon_textbook,
)

__all__ = [
    "Declaration",
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "InvariantEvent",
    "Ledger",
    "LedgerEntry",
    "Neighbours",
    "NonPrivateEvent",
    "ParallelEvent",
    "PrivacyEvent",
    "SequentialEvent",
    "epsilon_of",
    "event_from_mapping",
    "exact_text",
    "read_ledger",
    "rho_of",
    "zcdp_to_delta",
    "zcdp_to_epsilon",
    "zcdp_to_epsilon_textbook",
]
