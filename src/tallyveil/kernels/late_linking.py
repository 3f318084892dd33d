"""Compiled code that is taken from disk without what only the compiler needs.

numba keeps two forms of each compiled kernel: machine code, and LLVM's code, which is linked into other kernels when
these are compiled. It reads both when it takes a kernel from disk, and LLVM's code takes most of that time. A command
whose kernels are all on disk compiles nothing and never links. So LLVM's code is read here when a kernel is first
linked. What numba asks of it otherwise, the names of its functions and variables, is kept beside it.
"""

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from numba.core import caching, codegen

from tallyveil.kernels.code_files import CodeFiles, CodeFolder

_LLVM: Any = codegen.ll  # type: ignore[attr-defined]
_NumbaForm: Any = caching.CompileResultCacheImpl
_NumbaCode: Any = caching.FunctionCache


class LateLinking(_NumbaForm):  # type: ignore[misc]
    """The form in which numba keeps compiled code, with LLVM's code apart."""

    def __init__(self, function: Callable[..., Any], folder: CodeFolder) -> None:
        """Take the place of numba's form of a kernel, which would look for a folder beside the package."""
        self._lineno = function.__code__.co_firstlineno
        self._locator = folder
        self._filename_base = self.get_filename_base(function.__qualname__, getattr(sys, "abiflags", ""))

    def reduce(self, compiled: Any) -> Any:
        """What is kept of compiled code: names, LLVM's code, and all else as numba has it, with no code of LLVM."""
        (name, kind, (machine_code, linkable)), *rest = super().reduce(compiled)
        module = compiled.library._get_module_for_linking()
        own = [thing for things in (module.functions, module.global_variables) for thing in things]
        names = tuple(thing.name for thing in own if not thing.is_declaration)
        nothing = _LLVM.parse_assembly(str(compiled.codegen._create_empty_module(name))).as_bitcode()
        return names, linkable, ((name, kind, (machine_code, nothing)), *rest)

    def rebuild(self, target: Any, kept: Any) -> Any:
        """Compiled code from what is kept of it. It reads LLVM's code when another kernel is linked with it."""
        names, linkable, rest = kept
        target.codegen()._engine._defined_symbols.update(names)
        compiled = super().rebuild(target, rest)
        compiled.library._get_module_for_linking = cache(lambda: _LLVM.parse_bitcode(linkable))
        return compiled


class KeptCode(_NumbaCode):  # type: ignore[misc]
    """What a kernel's compiled code is taken from and kept in."""

    def __init__(self, function: Callable[..., Any], sources: str) -> None:
        """Say where the code of a kernel is kept.

        Args:
            function: The kernel.
            sources: Digest of the sources that the code comes from. Code of other sources is never taken.
        """
        folder = CodeFolder(function, sources)
        self._impl_class = lambda function: LateLinking(function, folder)
        super().__init__(function)
        self._cache_file = CodeFiles(folder, self._impl.filename_base)
