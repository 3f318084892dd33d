"""Recomputes the paper on SafeTab, the adaptive tabulation of detailed population groups.

Source: Haney, Sexton, Machanavajjhala, Hay, Miklau 2021, Differentially Private Algorithms for 2020 Census Detailed
DHC Race & Ethnicity.
"""
