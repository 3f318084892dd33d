"""Analyses of counts by area that account for the noise of a release.

The code is in `tallyveil.postprocess.derived`.
"""

from tallyveil.public_names import names_of, room

__all__ = names_of(__file__)  # noqa: PLE0605 - names of the list beside this file
__getattr__ = room(__name__, __file__)
