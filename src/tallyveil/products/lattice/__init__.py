"""One table with exact invariants, whose noise lies on the lattice of tables that agree on them."""
