"""Recomputes the examples of Dharangutte, Gao, Gong, Yu 2022, "Integer Subspace Differential Privacy".

Exact samplers are shown beside the paper's Markov chain. The paper's figures print no numbers and no lags. Its text
gives the numbers of iterations to convergence.
"""
