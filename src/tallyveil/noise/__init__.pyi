"""Exact integer noise: certified probability laws, inversion tables, and one keyed source with an address per draw."""

from tallyveil.noise.key import derive_key as derive_key
from tallyveil.noise.key import insecure_key as insecure_key
from tallyveil.noise.key import new_run_key as new_run_key
from tallyveil.noise.laws import DiscreteGaussian as DiscreteGaussian
from tallyveil.noise.laws import DiscreteLaplace as DiscreteLaplace
from tallyveil.noise.laws import Law as Law
from tallyveil.noise.source import NoiseSource as NoiseSource
from tallyveil.noise.source import discrete_gaussian as discrete_gaussian
from tallyveil.noise.source import discrete_laplace as discrete_laplace

__all__: list[str]
