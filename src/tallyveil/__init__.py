"""Tallyveil: hierarchical counts of people, published with differential privacy.

`__init__.pyi` lists what is public, beside the names that `tallyveil.accounting`, `tallyveil.noise`,
`tallyveil.safetab`, `tallyveil.subspace` and `tallyveil.spine` list in theirs. docs/python.md says
how these names may change.
"""

from typing import Any

from tallyveil.public_names import names_of, places, room
from tallyveil.version import VERSION

__version__ = VERSION
__all__ = ["__version__", *names_of(__file__)]  # noqa: PLE0604 - names of the list beside this file

_load = room(__name__, __file__)


def __getattr__(name: str) -> Any:
    if places(__file__).get(name, __name__) != __name__:
        from tallyveil.primitives import require_hashes

        require_hashes()
    return _load(name)


def __dir__() -> list[str]:
    return __all__
