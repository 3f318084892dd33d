"""What was done to privacy, as data, and what it costs: events, exact guarantees, classical bounds, the ledger."""

from tallyveil.public_names import names_of, room

__all__ = names_of(__file__)  # noqa: PLE0605 - names of the list beside this file
__getattr__ = room(__name__, __file__)
