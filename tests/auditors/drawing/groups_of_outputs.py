"""Names of the groups of outputs."""

GROUPS = ("samplers", "counts", "tree", "groups", "lattices", "releases")
