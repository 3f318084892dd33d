"""Tallyveil: hierarchical counts of people, published with differential privacy.

`__all__` lists what is public, beside the names that `tallyveil.accounting`, `tallyveil.noise`, `tallyveil.safetab`,
`tallyveil.subspace` and `tallyveil.spine` list in theirs. docs/python.md says how these names may change.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tallyveil.version import VERSION

if TYPE_CHECKING:
    from tallyveil import accounting, noise, safetab, spine, subspace
    from tallyveil.errors import TallyveilError
    from tallyveil.face.estimating import estimate
    from tallyveil.face.making import measure, run
    from tallyveil.face.opened import Measurements, Opened
    from tallyveil.face.planned import Plan, plan
    from tallyveil.face.programme import plan_programme, run_programme
    from tallyveil.face.released import Release
    from tallyveil.face.released import open_folder as open  # noqa: A004 - read as `tallyveil.open`
    from tallyveil.face.reliability import reliability
    from tallyveil.runs.cluster.site import ClusterSettings


__version__ = VERSION

_PLACES = {
    "ClusterSettings": ("runs.cluster.site", "ClusterSettings"),
    "Measurements": ("face.opened", "Measurements"),
    "Opened": ("face.opened", "Opened"),
    "Plan": ("face.planned", "Plan"),
    "Release": ("face.released", "Release"),
    "TallyveilError": ("errors", "TallyveilError"),
    "estimate": ("face.estimating", "estimate"),
    "measure": ("face.making", "measure"),
    "open": ("face.released", "open_folder"),
    "plan": ("face.planned", "plan"),
    "plan_programme": ("face.programme", "plan_programme"),
    "reliability": ("face.reliability", "reliability"),
    "run": ("face.making", "run"),
    "run_programme": ("face.programme", "run_programme"),
}
_ROOMS = ("accounting", "noise", "safetab", "spine", "subspace")

__all__ = [
    "ClusterSettings",
    "Measurements",
    "Opened",
    "Plan",
    "Release",
    "TallyveilError",
    "__version__",
    "accounting",
    "estimate",
    "measure",
    "noise",
    "open",
    "plan",
    "plan_programme",
    "reliability",
    "run",
    "run_programme",
    "safetab",
    "spine",
    "subspace",
]

# Type checkers read the imports above; a name that is not listed stays a mistake for them.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Nothing is imported before it is used, so that `import tallyveil` and the command line start at once.
        if name in _ROOMS:
            return import_module(f"{__name__}.{name}")
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from tallyveil.primitives import require_hashes

        require_hashes()
        place, own = _PLACES[name]
        return getattr(import_module(f"{__name__}.{place}"), own)


def __dir__() -> list[str]:
    return __all__
