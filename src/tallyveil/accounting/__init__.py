"""What was done to privacy, as data, and what it costs: events, exact guarantees, classical bounds, the ledger."""

from typing import TYPE_CHECKING, Any

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.costs import (
    delta_with_total_variation,
    epsilon_of,
    rho_of,
    total_variation_of,
)
from tallyveil.accounting.events import (
    AdaptiveEvent,
    DiscreteGaussian,
    DiscreteLaplace,
    InvariantEvent,
    NonPrivateEvent,
    ParallelEvent,
    PoissonSampled,
    PrivacyEvent,
    SequentialEvent,
    WorstEvent,
)
from tallyveil.accounting.exact import exact_text
from tallyveil.accounting.filters import Filter, Odometer
from tallyveil.accounting.further_events import ZCDP, ApproximateDP, Gaussian, Laplace, RandomizedResponse
from tallyveil.accounting.ledger.event_json import event_from_mapping
from tallyveil.accounting.ledger.lines import Declaration, LedgerEntry
from tallyveil.accounting.losses.loss_laws import alternatives_of, invariants_of, loss_law_of
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.accounting.renyi import (
    Conversion,
    RenyiBound,
    renyi_delta,
    renyi_divergence,
    renyi_epsilon,
)
from tallyveil.accounting.subspace_events import IntegerSubspaceGaussian, IntegerSubspaceLaplace
from tallyveil.accounting.translation import group_privacy, translate
from tallyveil.accounting.zcdp import zcdp_to_delta, zcdp_to_epsilon, zcdp_to_epsilon_textbook
from tallyveil.accounting.zcdp_curve import ZcdpConversion, ZcdpCurve

if TYPE_CHECKING:
    from tallyveil.accounting.calibration import Calibration, calibrate
    from tallyveil.accounting.composition import compose
    from tallyveil.accounting.dp_events import from_dp_event
    from tallyveil.accounting.guarantee import Guarantee
    from tallyveil.accounting.ledger.file import Ledger, read_ledger
    from tallyveil.accounting.whole_curve import calibrate_to_curve, curve_excess

# Engines bring compilers and transforms along, files a table reader; describing an event should start at once.
_HEAVY = {
    "Calibration": "calibration",
    "Guarantee": "guarantee",
    "Ledger": "ledger.file",
    "read_ledger": "ledger.file",
    "calibrate": "calibration",
    "calibrate_to_curve": "whole_curve",
    "compose": "composition",
    "curve_excess": "whole_curve",
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
