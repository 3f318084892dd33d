"""Variances as functions of the shares of a budget, with their derivatives."""
