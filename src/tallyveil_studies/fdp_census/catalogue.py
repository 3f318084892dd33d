"""List of the paper's exhibits that can be recomputed, and of exhibits that are not in the paper."""

from typing import Final

from tallyveil_studies.exhibit import Exhibit
from tallyveil_studies.fdp_census import (
    appendix,
    curves,
    education,
    every_delta,
    noisy_counts,
    products,
    released,
    table_1,
    through_topdown,
)

EXHIBITS: Final = (
    Exhibit("table-1", "Table 1: least noise for the published epsilon", table_1.reduced_variances),
    Exhibit("table-2", "Table 2: residuals of the Gaussian approximation", appendix.certified_residuals),
    Exhibit("table-3", "Table 3: the allocation", table_1.allocation),
    Exhibit("figure-2", "Figure 2: delta at every epsilon, by geolevel", curves.geolevel_profiles),
    Exhibit("figure-3", "Figure 3: epsilon by geolevel", curves.epsilons),
    Exhibit("figure-4", "Figure 4: trade-off functions by geolevel", curves.geolevel_tradeoffs),
    Exhibit("figure-5", "Figure 5: reduced noise against the Bureau's", curves.reduced_profiles),
    Exhibit("figure-6", "Figure 6: error of noisy counts", noisy_counts.errors_by_geolevel, "counts"),
    Exhibit("figure-7", "Figure 7: all geolevels together", curves.overall_profile),
    Exhibit("figure-8", "Figure 8: error of noisy counts by race", noisy_counts.errors_by_race, "counts"),
    Exhibit("figure-9", "Figure 9: a regression on noisy counts", education.slope_distortion, "regressions"),
    Exhibit("figure-10", "Figure 10: the sum of two draws and its density", appendix.two_folds),
    Exhibit("figure-11", "Figure 11: 1,890 equal queries", curves.many_folds),
    Exhibit("figure-12", "Figure 12: trade-off function of all geolevels", curves.overall_tradeoff),
    Exhibit("figure-13", "Figure 13: trade-off functions of the County, close up", curves.county_zoom),
    Exhibit("figure-14", "Figure 14: how much smaller epsilon is", curves.improvements),
    Exhibit("figure-15", "Figure 15: how much smaller epsilon is, in percent", curves.relative_improvements),
    Exhibit("closed-forms", "Appendix A: the paper's closed forms and error budget", appendix.closed_forms),
    Exhibit("knots", "Appendix A: equations A.5 and A.6, and Theorem A.8's constants", appendix.knots),
    Exhibit("every-delta", "Section 3.1: a smaller epsilon at every delta", every_delta.every_delta),
    Exhibit("redistricting", "Redistricting data 2021 as released, exactly", released.redistricting),
    Exhibit("dhc-persons", "DHC persons 2023 as released, exactly", released.dhc_persons),
    Exhibit("dhc-units", "DHC housing units 2023 as released, exactly", released.dhc_units),
    Exhibit("products", "All released products, one by one and together", products.products),
    Exhibit("queries", "Every query's parameters before composition", products.queries),
    Exhibit("replacement", "Appendix A.1: a record replaced, not added", products.replacement),
    Exhibit("topdown", "Reduced noise through TopDown, Rhode Island", through_topdown.through_topdown),
)
