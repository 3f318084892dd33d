"""List of the exhibits that can be recomputed."""

from typing import Final

from tallyveil_studies.exhibit import Exhibit
from tallyveil_studies.integer_subspace import convergence, noise, polytopes, topdown_bias

EXHIBITS: Final = (
    Exhibit("table-1", "Table 1: noise on the children, l1", noise.children_l1),
    Exhibit("table-3", "Table 3: noise on the children, l2", noise.children_l2),
    Exhibit("figure-1", "Figure 1: distance of the chain, children, l1", convergence.children_l1),
    Exhibit("figure-2", "Figure 2: noise on the counties of Illinois", noise.illinois_boxes),
    Exhibit("figure-4", "Figure 4: distance of the chain, 14 cells", convergence.intersecting),
    Exhibit("figure-5", "Figure 5: noise on the 14 cells", noise.intersecting_boxes),
    Exhibit("figure-6", "Figure 6: distance of the chain, children, l2", convergence.children_l2),
    Exhibit("figure-7", "Figure 7: noise on the children", noise.children_boxes),
    Exhibit("figure-8", "Figure 8: noise on the counties of every State", noise.counties),
    Exhibit("illinois", "Distance of the chain, counties of Illinois", convergence.illinois),
    Exhibit("iterations", "Iterations to convergence", convergence.iterations),
    Exhibit("scale-reduction", "Scale reduction of the paper's chains", convergence.reduced),
    Exhibit("unbiasedness", "Means and margins of the exact noise", noise.unbiasedness),
    Exhibit("projection", "Noise that keeps the sum, and noise then projected", noise.projected),
    Exhibit("figure-9", "Figure 9: tables without negative counts", noise.nonnegative),
    Exhibit("polytopes", "Sums that cross and 0/1 tables, with all three outputs", polytopes.polytopes),
    Exhibit("topdown-bias", "TopDown's errors by size beside lattice noise", topdown_bias.topdown_bias),
)
