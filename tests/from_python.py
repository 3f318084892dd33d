"""A way for tests to call a function that only kernels call."""

from collections.abc import Callable
from typing import Any

from tallyveil.kernels.compiled import njit


def from_python(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, compiled for Python and kept on disk. Without compilation it is returned as it is."""
    compiled: Callable[..., Any] = njit(nogil=True, cache=True)(getattr(kernel, "py_func", kernel))
    return compiled
