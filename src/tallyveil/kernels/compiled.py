"""How parts of a kernel are compiled, and when compiled code on disk is out of date.

A compiled function carries the code of everything that it calls, and the compiler optimises this code again for each
kernel that calls it. It also adds wrappers by which Python can call the function, which are long where arguments have
many fields. Four decorators keep the first compilation short:

- `@njit(nogil=True, cache=True)` is for a kernel that Python calls.
- `internal` is for a function that only kernels call. It gets no wrappers and no machine code of its own, see
  `kernels.part_code`.
- `pointed` is for a kernel that other kernels call through a pointer, and Python does not.
- `inlined` is for a long function with one caller. It is compiled as lines of its caller, not by itself. Numba copies
  these lines slowly where there are many, so a function that is itself made of such functions is not for it.

A kernel can also get other kernels as an argument and call them through pointers (`with_pointers`). It then carries
none of their code. So it can be compiled before them, or at the same time in another process.

During type inference, numba gives a variable that begins with a literal number the type of this literal. A kernel that
is called with the variable is then also compiled for this type, in vain. `int(np.int64(0))` in the place of `0` avoids
this, because it is no literal.

numba by itself takes compiled code from disk as long as the file of the function is the same. It does not look at the
files of the functions and types that the function uses. An upgrade in place replaces these files, too. So the
decorators here bind compiled code to the sources of all modules of this package that the function's module imports,
directly or through others. If one of these sources has changed, the function is compiled anew. `kernels.code_files`
keeps code on disk, and `kernels.late_linking` takes only as much of it as a command needs.
"""

import hashlib
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numba
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.core.typing.templates import Signature

from tallyveil.errors import StoreError
from tallyveil.kernels.code_files import CodeFiles
from tallyveil.kernels.late_linking import KeptCode
from tallyveil.kernels.part_code import PartCompiler

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

PART: dict[str, Any] = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "nogil": True,
    "pipeline_class": PartCompiler,
}
"""Options of numba for a function that only kernels call."""


def njit(*, cache: bool = False, **options: Any) -> Callable[[Kernel], Kernel]:
    """`numba.njit` whose compiled code on disk is bound to all sources that it can come from.

    Args:
        cache: Whether compiled code is kept on disk.
        options: Other options of numba.
    """

    def compiled(function: Kernel) -> Kernel:
        made = numba.njit(**options)(function)
        if isinstance(made, Dispatcher):  # else the environment has turned compilation off
            if cache:
                cast(Any, made)._cache = KeptCode(function, sources_digest(function.__module__))
            _remember(made)
        return cast(Kernel, made)

    return compiled


def internal(function: Kernel) -> Kernel:
    """Decorator of a function that only kernels call."""
    return cast(Kernel, numba.njit(**PART)(function))


def pointed(function: Kernel) -> Kernel:
    """Decorator of a kernel that only kernels call, through a pointer (`with_pointers`)."""
    return njit(no_cpython_wrapper=True, nogil=True, cache=True)(function)


def inlined(function: Kernel) -> Kernel:
    """Decorator of a long function with one caller. The function is compiled as lines of this caller."""
    return njit(nogil=True, cache=True, inline="always")(function)


def with_pointers(kernel: Kernel, given: Sequence[object], pointers: types.Type) -> Callable[..., Any]:
    """Compile a kernel whose last argument is a kernel that it calls through a pointer, or a tuple of such kernels.

    Args:
        kernel: The kernel. If compilation is turned off, it is returned as it is.
        given: Its other arguments, for their types.
        pointers: The type of the last argument, from the signatures of the kernels that are called. A kernel must
            have been compiled for its signature before it is passed: numba then takes that code, and otherwise does
            not find it on disk.
    Returns:
        The compiled kernel, to be called with all arguments.
    """
    if not isinstance(kernel, Dispatcher):
        return kernel
    compiled: Callable[..., Any] = kernel.compile((*map(numba.typeof, given), pointers))
    return compiled


def compiled_for(kernel: Kernel, signature: Signature) -> Callable[..., Any]:
    """Compile a kernel for a signature, or load it from disk. If compilation is turned off, it is returned as it is."""
    if not isinstance(kernel, Dispatcher):
        return kernel
    compiled: Callable[..., Any] = kernel.compile(signature.args)
    return compiled


def on_disk(kernel: Callable[..., Any]) -> bool:
    """Whether compiled code of a kernel and of its present sources is on disk, for some types of arguments."""
    # Without compilation (see `njit`) there is nothing to wait for.
    return not isinstance(kernel, Dispatcher) or _files(kernel).codes() > 0


def require_kept() -> None:
    """Refuse if code that this process compiled or loaded is not on disk.

    Raises:
        StoreError: A folder did not take the code. The message names one.
    """
    modules = [vars(module) for name, module in sys.modules.items() if name.startswith(f"{__package__}.")]
    for kernel in {id(value): value for names in modules for value in names.values()}.values():
        if _is_kept(kernel) and _files(kernel).codes() < len(cast(Any, kernel).overloads):
            raise StoreError(
                f"the kernels were compiled, but the folder {cast(Any, kernel)._cache.cache_path} did not keep all of "
                "their code, so that later commands compile it again. Make it a folder that can be written to, on a "
                "disk with space, or set NUMBA_CACHE_DIR to such a folder for every command.",
                code="kernels-not-kept",
            )


def _is_kept(value: object) -> bool:
    """Whether a value is a kernel whose compiled code belongs on disk."""
    return isinstance(value, Dispatcher) and isinstance(_files(value), CodeFiles)


@cache
def sources_digest(module: str) -> str:
    """SHA-256 of the sources of a loaded module and of all modules of its package that it imports, in hexadecimal."""
    found: dict[str, bytes] = {}
    names = [module]
    while names:
        name = names.pop()
        if name not in found:
            source = _source(name)
            found[name] = source.digest
            names += source.imported
    digest = hashlib.sha256()
    for name, own in sorted(found.items()):
        digest.update(own + name.encode() + b"\0")
    return digest.hexdigest()


class _Source(NamedTuple):
    digest: bytes
    imported: tuple[str, ...]


@cache
def _source(module: str) -> _Source:
    """Digest of a loaded module's file, and the modules of the same package from which it imports names."""
    data = Path(str(sys.modules[module].__file__)).read_bytes()
    package = re.escape(module.partition(".")[0]).encode()
    names = re.findall(rb"^from (" + package + rb"(?:\.\w+)*) import ", data, re.MULTILINE)
    return _Source(hashlib.sha256(data).digest(), tuple(name.decode() for name in names))


def _files(kernel: Any) -> Any:
    return getattr(kernel._cache, "_cache_file", None)


def _remember(made: Any) -> None:
    """Find compiled code by the signature object itself.

    Numba asks for it whenever Python passes a kernel as a pointer, and would hash every type in the signature. That
    takes longer than estimating a small family.
    """
    ask, found = made.get_compile_result, {}

    def remembered(signature: Signature) -> Any:
        if id(signature) not in found:
            found[id(signature)] = (signature, ask(signature))  # while it is kept, no other object has its id
        return found[id(signature)][1]

    made.get_compile_result = remembered
