"""Exact integer noise: certified probability laws, inversion tables, and one keyed source with an address per draw."""

from typing import TYPE_CHECKING, Any

from tallyveil.noise.key import derive_key, insecure_key, new_run_key
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace, Law

if TYPE_CHECKING:
    from tallyveil.noise.source import NoiseSource, discrete_gaussian, discrete_laplace

# These import the compiler. Planning needs only the laws and should start at once.
_LATER = {"NoiseSource": "source", "discrete_gaussian": "source", "discrete_laplace": "source"}

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Law",
    "NoiseSource",
    "derive_key",
    "discrete_gaussian",
    "discrete_laplace",
    "insecure_key",
    "new_run_key",
]

# Type checkers read the imports above; a name that is not listed stays a mistake for them.
if not TYPE_CHECKING:
    # Called only for names that are not yet there; the import puts no name of its own into this module.
    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
