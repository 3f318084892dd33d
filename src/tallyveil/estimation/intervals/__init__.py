"""Unbiased estimates, exact variances and intervals for any count, from the noisy measurements of the whole spine."""
