"""Spines of geounits: build them, measure how far areas lie off them, and optimise them.

The code is in `tallyveil.geography`.
"""

from tallyveil.public_names import names_of, room

__all__ = names_of(__file__)  # noqa: PLE0605 - names of the list beside this file
__getattr__ = room(__name__, __file__)
