"""A better division of the same budget: the shares that make some variances small, with a certified gap."""
