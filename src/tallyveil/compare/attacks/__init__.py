"""Attacks on published tables, one module each. Every attack states who the attacker is and what he knows beforehand.

An attack is tuned to the method that it attacks: the attacker knows the law of its changes (`compare.published.Law`),
and chooses what is left to choose on one half of the people. The other half judges him. An attack that is weak flatters
every method, so each is tried first on exact tables and on a release with an epsilon of 1000.
"""
