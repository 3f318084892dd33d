"""Integer subspace differential privacy: lattices of invariants, laws on them, exact samplers and guarantees."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallyveil.subspace.constraints import ConstraintSystem
    from tallyveil.subspace.exact.choose_sampler import SamplerChoice, choose_sampler
    from tallyveil.subspace.exact.digits import NoiseAddress
    from tallyveil.subspace.guarantee import (
        SmoothGuarantee,
        compose_guarantees,
        event_of,
        gaussian_rho,
        laplace_guarantee,
        paper_variance,
    )
    from tallyveil.subspace.lattice import (
        Lattice,
        check_lattice,
        lattice_of,
        particular_solution,
        shortest_vectors,
    )
    from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, LatticeLaw, Norm
    from tallyveil.subspace.profile import PairProfile, pair_profile

# Samplers import the compiler. Laws and guarantees should start at once, so names are imported on first use.
_PLACES = {
    "ConstraintSystem": "constraints",
    "GeneralisedGaussian": "mechanisms",
    "GeneralisedLaplace": "mechanisms",
    "Lattice": "lattice",
    "LatticeLaw": "mechanisms",
    "NoiseAddress": "exact.digits",
    "Norm": "mechanisms",
    "PairProfile": "profile",
    "SamplerChoice": "exact.choose_sampler",
    "SmoothGuarantee": "guarantee",
    "check_lattice": "lattice",
    "choose_sampler": "exact.choose_sampler",
    "compose_guarantees": "guarantee",
    "event_of": "guarantee",
    "gaussian_rho": "guarantee",
    "laplace_guarantee": "guarantee",
    "lattice_of": "lattice",
    "pair_profile": "profile",
    "paper_variance": "guarantee",
    "particular_solution": "lattice",
    "shortest_vectors": "lattice",
}

__all__ = [
    "ConstraintSystem",
    "GeneralisedGaussian",
    "GeneralisedLaplace",
    "Lattice",
    "LatticeLaw",
    "NoiseAddress",
    "Norm",
    "PairProfile",
    "SamplerChoice",
    "SmoothGuarantee",
    "check_lattice",
    "choose_sampler",
    "compose_guarantees",
    "event_of",
    "gaussian_rho",
    "laplace_guarantee",
    "lattice_of",
    "pair_profile",
    "paper_variance",
    "particular_solution",
    "shortest_vectors",
]

# Type checkers read the imports above; a name that is not listed stays a mistake for them.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
