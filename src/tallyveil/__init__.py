"""Tallyveil: hierarchical counts of people, published with differential privacy.

`__init__.pyi` lists what is public, beside the names that `tallyveil.accounting`, `tallyveil.noise`,
`tallyveil.safetab`, `tallyveil.subspace` and `tallyveil.spine` list in theirs. docs/python.md says
how these names may change.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from tallyveil.version import VERSION

__version__ = VERSION

_LIST = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_PLACES = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as ", _LIST, re.MULTILINE)}
__all__ = ["__version__", *sorted(_PLACES)]  # noqa: PLE0604 - names of the list above


def __getattr__(name: str) -> Any:
    # Nothing is imported before it is used, so that `import tallyveil` and the command line start at once.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _PLACES[name]
    if module == __name__:
        return import_module(f"{module}.{name}")
    from tallyveil.primitives import require_hashes

    require_hashes()
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return __all__
