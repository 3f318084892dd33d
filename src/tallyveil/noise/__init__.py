"""Exact integer noise: certified probability laws, inversion tables, and one keyed source with an address per draw."""

from tallyveil.public_names import names_of, room

__all__ = names_of(__file__)  # noqa: PLE0605 - names of the list beside this file
__getattr__ = room(__name__, __file__)
