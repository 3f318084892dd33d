"""Integer subspace differential privacy: lattices of invariants, laws on them, exact samplers and guarantees."""

from tallyveil.subspace.constraints import ConstraintSystem as ConstraintSystem
from tallyveil.subspace.exact.choose_sampler import SamplerChoice as SamplerChoice
from tallyveil.subspace.exact.choose_sampler import choose_sampler as choose_sampler
from tallyveil.subspace.exact.digits import NoiseAddress as NoiseAddress
from tallyveil.subspace.guarantee import SmoothGuarantee as SmoothGuarantee
from tallyveil.subspace.guarantee import compose_guarantees as compose_guarantees
from tallyveil.subspace.guarantee import event_of as event_of
from tallyveil.subspace.guarantee import gaussian_rho as gaussian_rho
from tallyveil.subspace.guarantee import laplace_guarantee as laplace_guarantee
from tallyveil.subspace.guarantee import paper_variance as paper_variance
from tallyveil.subspace.lattice import Lattice as Lattice
from tallyveil.subspace.lattice import check_lattice as check_lattice
from tallyveil.subspace.lattice import lattice_of as lattice_of
from tallyveil.subspace.lattice import particular_solution as particular_solution
from tallyveil.subspace.lattice import shortest_vectors as shortest_vectors
from tallyveil.subspace.mechanisms import GeneralisedGaussian as GeneralisedGaussian
from tallyveil.subspace.mechanisms import GeneralisedLaplace as GeneralisedLaplace
from tallyveil.subspace.mechanisms import LatticeLaw as LatticeLaw
from tallyveil.subspace.mechanisms import Norm as Norm
from tallyveil.subspace.profile import PairProfile as PairProfile
from tallyveil.subspace.profile import pair_profile as pair_profile

__all__: list[str]
