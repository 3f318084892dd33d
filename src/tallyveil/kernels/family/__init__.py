"""Estimation of one family: non-negative weighted least squares under constraints, compiled."""
