"""SafeTab: adaptive tables of detailed population groups.

The names come from `tallyveil.products.safetab.public`, where the code is.
"""

from tallyveil.public_names import names_of, room

__all__ = names_of(__file__)  # noqa: PLE0605 - names of the list beside this file
__getattr__ = room(__name__, __file__)
