"""Dharangutte, Gao, Gong, Yu 2022, "Integer Subspace Differential Privacy": its examples, with exact samplers beside.

Its figures print no numbers and no lags; iterations to convergence stand in its text.
"""
