"""Names of the groups of outputs."""

RELEASES = ("release-gaussian", "release-laplace")
"""Groups of whole releases."""

GROUPS = ("samplers", "counts", "tree", "groups", "lattices", *RELEASES)
