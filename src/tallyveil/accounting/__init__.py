"""What was done to privacy, as data, and what it costs: events, exact guarantees, classical bounds, the ledger."""

from typing import TYPE_CHECKING, Any

from tallyveil.accounting.costs import (
    delta_with_total_variation,
    epsilon_of,
    group_privacy,
    rho_of,
    total_variation_of,
    translate,
)
from tallyveil.accounting.events import (
    ZCDP,
    AdaptiveEvent,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    IntegerSubspaceGaussian,
    IntegerSubspaceLaplace,
    InvariantEvent,
    Laplace,
    Neighbours,
    NonPrivateEvent,
    ParallelEvent,
    PoissonSampled,
    PrivacyEvent,
    RandomizedResponse,
    SequentialEvent,
    WorstEvent,
)
from tallyveil.accounting.filters import Filter, Odometer
from tallyveil.accounting.ledger.lines import Declaration, LedgerEntry, event_from_mapping
from tallyveil.accounting.losses import alternatives_of, invariants_of, loss_law_of
from tallyveil.accounting.numbers import Bounds, exact_text
from tallyveil.accounting.renyi import (
    Conversion,
    RenyiBound,
    ZcdpConversion,
    ZcdpCurve,
    renyi_delta,
    renyi_divergence,
    renyi_epsilon,
    zcdp_to_delta,
    zcdp_to_epsilon,
    zcdp_to_epsilon_textbook,
)

if TYPE_CHECKING:
    from tallyveil.accounting.calibration import Calibration, calibrate, calibrate_to_curve, curve_excess
    from tallyveil.accounting.dp_events import from_dp_event
    from tallyveil.accounting.guarantee import Guarantee, compose
    from tallyveil.accounting.ledger.file import Ledger, read_ledger

# Engines bring compilers and transforms along, files a table reader; describing an event should start at once.
_HEAVY = {
    "Calibration": "calibration",
    "Guarantee": "guarantee",
    "Ledger": "ledger.file",
    "read_ledger": "ledger.file",
    "calibrate": "calibration",
    "calibrate_to_curve": "calibration",
    "compose": "guarantee",
    "curve_excess": "calibration",
    "from_dp_event": "dp_events",
}

__all__ = [
    "ZCDP",
    "AdaptiveEvent",
    "ApproximateDP",
    "Bounds",
    "Calibration",
    "Conversion",
    "Declaration",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Filter",
    "Gaussian",
    "Guarantee",
    "IntegerSubspaceGaussian",
    "IntegerSubspaceLaplace",
    "InvariantEvent",
    "Laplace",
    "Ledger",
    "LedgerEntry",
    "Neighbours",
    "NonPrivateEvent",
    "Odometer",
    "ParallelEvent",
    "PoissonSampled",
    "PrivacyEvent",
    "RandomizedResponse",
    "RenyiBound",
    "SequentialEvent",
    "WorstEvent",
    "ZcdpConversion",
    "ZcdpCurve",
    "alternatives_of",
    "calibrate",
    "calibrate_to_curve",
    "compose",
    "curve_excess",
    "delta_with_total_variation",
    "epsilon_of",
    "event_from_mapping",
    "exact_text",
    "from_dp_event",
    "group_privacy",
    "invariants_of",
    "loss_law_of",
    "read_ledger",
    "renyi_delta",
    "renyi_divergence",
    "renyi_epsilon",
    "rho_of",
    "total_variation_of",
    "translate",
    "zcdp_to_delta",
    "zcdp_to_epsilon",
    "zcdp_to_epsilon_textbook",
]

# Type checkers read the imports above; a name that is not listed stays a mistake for them.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HEAVY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_HEAVY[name]}"), name)
