"""SafeTab: adaptive tables of detailed population groups.

The names come from `tallyveil.products.safetab.public`, where the code is.
"""

from typing import TYPE_CHECKING, Any

from tallyveil.products.safetab.public.config import SafetabConfig, read_config
from tallyveil.products.safetab.public.plan import LevelSet, RunPlan, SafetabPlan, make_plan, read_plan

if TYPE_CHECKING:
    from tallyveil.products.safetab.public.files import convert_short_form
    from tallyveil.products.safetab.public.privacy import (
        RunPrivacy,
        budget_for_margin,
        calibrate_plan,
        privacy_of,
    )

__all__ = [
    "LevelSet",
    "RunPlan",
    "RunPrivacy",
    "SafetabConfig",
    "SafetabPlan",
    "budget_for_margin",
    "calibrate_plan",
    "convert_short_form",
    "make_plan",
    "privacy_of",
    "read_config",
    "read_plan",
]

_LATER = {
    "RunPrivacy": "privacy",
    "budget_for_margin": "privacy",
    "calibrate_plan": "privacy",
    "convert_short_form": "short_form",
    "privacy_of": "privacy",
}

# Type checkers read the imports above; a name that is not listed stays a mistake for them.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"tallyveil.products.safetab.public.{_LATER[name]}"), name)
