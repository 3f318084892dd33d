"""Recomputes the paper on geographic spines.

Source: Cumings-Menon, Abowd, Ashmead, Kifer, Leclerc, Ocker, Ratcliffe, Zhuravlev 2023, Geographic Spines in the 2020
Census Disclosure Avoidance System.
"""
