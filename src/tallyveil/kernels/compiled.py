"""How kernels are compiled, and where their compiled code is kept on disk.

Only the documented interface of numba is used here, so that a new version of it asks for no change.

A compiled function carries the code of everything that it calls, and the compiler optimises this code again for each
kernel that calls it. Four decorators and one rule keep the first compilation short:

- `@njit(nogil=True, cache=True)` is for a kernel that Python calls, or that kernels call through a pointer.
- `internal` is for a function that only kernels call. Neither Python nor a pointer can call its compiled form, which
  spares two wrappers.
- `hot` is for a function of an innermost loop that only kernels call. The compiler copies it into its callers: a call
  would copy every array of the nested tuples that it takes.
- `inlined` is for a long function with one caller. It is compiled as lines of its caller, not by itself. Numba copies
  these lines slowly where there are many, so a function that is itself made of such functions is not for it.
- A kernel can get other kernels as an argument, in a named tuple that `pointers` decorates. It calls them through
  pointers and carries none of their code. So it can be compiled before them, or at the same time in another process.

During type inference, numba gives a variable that begins with a literal number the type of this literal. A kernel that
is called with the variable is then also compiled for this type, in vain. `int(np.int64(0))` in the place of `0` avoids
this, because it is no literal.

**Types.** A kernel that is called through a pointer has one signature, and it is that of its annotations. The names in
`tallyveil.arrays` say how many dimensions an array has: `Floats` is one row of numbers here, `FloatRows` has two
dimensions.

**Code on disk.** Compiled code is in the user's cache folder, or in the one that NUMBA_CACHE_DIR names. It is never
beside the installed package, where it would stay behind when the package is removed. numba takes code from disk as long
as the file of the kernel is the same. It does not look at the files of what the kernel calls, which an upgrade may
replace. So each module has one folder for each digest of everything that its code comes from: its own file, the files
of all modules of this package that it imports, directly or through others, and the processor.

numba keeps the codes of a kernel for several types in numbered files, and an index of them. It writes the index before
the code, and locks nothing. Two processes that wrote at once could give one number to two codes, and the index would
then name the code for another type, which gives a wrong number. So only one process at a time writes into a folder
(`_OneWriter`), and numba reads the index again when it has its turn.

**Seals.** numba runs what it reads, so a damaged file could stop the process or give a wrong number. Each file
therefore has a seal beside it: a file with its SHA-256 and its time of change. Seals are written when a process ends
and when code was compiled for stated types. A process that begins removes the code of kernels of which a file does not
fit its seal, and they are compiled again. A file without a seal, or changed since, comes from a process that was killed
or still runs. It is sealed as it is if it can be read to its end.

**Carried code.** A wheel of `make wheel` has compiled code for a few processors in `CARRIED`, with seals, in folders of
the same digests. Where a module has no code on disk yet, the code for the best of these processors that the machine
covers is copied to where numba looks. numba takes code only for exactly the processor that it would compile for. In the
wheel's indexes, the processor is therefore a call of `this_processor`, which Python makes when numba reads the index.
"""

import atexit
import errno
import hashlib
import inspect
import logging
import os
import pickletools
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from types import FunctionType, SimpleNamespace
from typing import Annotated, Any, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

import llvmlite
import llvmlite.binding
import numba
import numpy as np
from numba import types
from numba.core.event import Listener, register
from numba.experimental import structref
from numba.extending import intrinsic, is_jitted, overload, typeof_impl

from tallyveil.errors import StoreError
from tallyveil.storage.system import remove_locked, take_lock, user_cache

logger = logging.getLogger(__name__)

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
Pointers = TypeVar("Pointers", bound=tuple[Any, ...])
Fields = TypeVar("Fields", bound=tuple[Any, ...])

DAYS_KEPT = 30
"""Age in days from which code of other sources is removed when a module is compiled anew. An upgrade leaves 12 MB of
earlier code behind, and so does an edit of a source. With half as many days, an older version that is installed as well
would be compiled again more often; with twice as many, a developer's cache would grow to twice the size."""

ROOM = 1 << 21
"""Bytes that a disk must take before code is kept on it. The code of the largest kernel has 1.4 MB. With half of it, a
disk that is nearly full could stop a command when numba writes the code; with twice as much, code that fits would now
and then be compiled anew by every command."""

SEAL = ".sha256"
"""What the name of a seal has after that of its file."""

LONG_WAIT = 10
"""Seconds after which it is said that another process is waited for. To write the code of a kernel takes milliseconds.
With a tenth of it, a busy network disk would be spoken of; with ten times as much, a user would think of a failure."""

CARRIED = Path(__file__).with_name("carried")
"""Compiled code that a wheel has brought along. It is only read: an installation may be read-only."""

BASELINES = {
    "x86-64-v3": "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave",
    "generic": "",
}
"""Processors for which a wheel carries code, by LLVM's names, the best first, and what a machine must have for each."""

# numba says little about its own types
_config: Any = numba.config
_numba: Any = types
_structs: Any = structref
# numba reads its setting when it makes a function, so the setting may be changed for this moment only.
_folders = threading.RLock()
"""Held while numba's setting of the cache folder names that of one module."""
_shared: set[Path] = set()
"""The folders of code that this process uses and that other processes may write into, too."""


def njit(*, cache: bool = False, **options: Any) -> Callable[[Kernel], Kernel]:
    """`numba.njit` whose compiled code on disk is bound to all sources that it can come from.

    Args:
        cache: Whether compiled code is kept on disk.
        options: Other options of numba.
    """

    def decorated(function: Kernel) -> Kernel:
        return _jitted(function, None, cache, options)

    return decorated


def internal(function: Kernel, **options: Any) -> Kernel:
    """Decorator of a function that only kernels call, and not through a pointer. Python runs it as it is.

    Args:
        function: The function.
        options: Options of numba.
    """
    # numba takes both options, but its stubs do not name them.
    spared = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    cast(Any, function).only_for_kernels = {**spared, **options}
    return function


def hot(function: Kernel) -> Kernel:
    """Decorator of a function of an innermost loop that only kernels call. The compiler copies it into its callers."""
    return internal(function, forceinline=True)


@typeof_impl.register(FunctionType)
def _type_of_function(function: Any, context: Any) -> Any:
    """numba's type of a function that only kernels call; None for other functions."""
    return _numba.Dispatcher(_for_kernels(function)) if hasattr(function, "only_for_kernels") else None


@cache
def _for_kernels(function: Any) -> Any:
    """What kernels call in the place of a function that only they call."""
    # Not `register_jitable`: it compiles a function once for kernels and once more for functions that kernels call.
    return numba.njit(**function.only_for_kernels)(function)


def uncounted(array: Any) -> Any:
    """The same memory as an array that does not count its references, for the innermost loops of a kernel.

    Each part of an array that a loop cuts out counts a reference up and down, and so does a field of a named tuple that
    is used in a `hot` function. Each of both is an atomic operation of the processor. Whoever called the kernel must
    hold the array until the kernel returns.
    """
    return array


@overload(uncounted)
def _compiled_uncounted(array: Any) -> Any:
    """What a kernel calls."""

    def instructions(array: Any) -> Any:
        return _without_counter(array)  # type: ignore[call-arg]

    return instructions


@intrinsic
def _without_counter(context: Any, array: Any) -> Any:
    """The type of `uncounted`, and its instructions."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        copy = context.make_array(array)(context, builder, value=arguments[0])
        counter = types.MemInfoPointer(types.voidptr)  # type: ignore[no-untyped-call]
        copy.meminfo = context.get_constant_null(counter)
        return copy._getvalue()

    return array(array), code


def inlined(function: Kernel) -> Kernel:
    """Decorator of a long function with one caller. The function is compiled as lines of this caller."""
    return cast(Kernel, numba.njit(nogil=True, inline="always")(function))


def pointers(kind: type[Pointers]) -> type[Pointers]:
    """Decorator of a named tuple of kernels, and of other such tuples: kernels take it as a tuple of pointers."""
    typeof_impl.register(kind, lambda value, context: numba_type(kind))
    return kind


@cache
def compiled(kernel: Kernel) -> Kernel:
    """The kernel for the types that its annotations state, compiled now or loaded from disk.

    If the environment has turned compilation off, the kernel is returned as it is.
    """
    if not is_jitted(kernel):
        return kernel
    function: Kernel = cast(Any, kernel).py_func
    return _jitted(function, signature_of(function).args, True, {"nogil": True})


@cache
def all_compiled(kernels: Pointers) -> Pointers:
    """A tuple of kernels and of such tuples, with each kernel `compiled`."""
    return type(kernels)(
        *(all_compiled(part) if isinstance(part, tuple) else compiled(part) for part in kernels)
    )


def lines_of(kernel: Kernel) -> Kernel:
    """The function of a kernel, whose lines Python runs. It is for short functions that call other kernels."""
    return cast(Kernel, cast(Any, kernel).py_func) if is_jitted(kernel) else kernel


@_structs.register
class _HolderType(_numba.StructRef):  # type: ignore[misc]
    """numba's type of a `Holder`; its parameter is the tuple of pointers."""


class Holder(_structs.StructRefProxy):  # type: ignore[misc]
    """Pointers to kernels that numba has looked up, as `holder.kernels` in a kernel.

    An annotation is `Annotated[Holder, Kernels]`. For each pointer that Python passes as it is, numba hashes all types
    in its signature several times. With seven kernels that takes ten times as long as to estimate a small family.
    """


_structs.define_boxing(_HolderType, Holder)


@cache
def held(hold: Callable[[Pointers], Holder], kernels: Pointers) -> Holder:
    """A holder of kernels, which a kernel puts into it."""
    if is_jitted(hold):
        return cast(Holder, compiled(hold)(all_compiled(kernels)))
    return cast(Holder, SimpleNamespace(kernels=kernels))


def _jitted(function: Kernel, arguments: Any, cache: bool, options: dict[str, Any]) -> Kernel:
    """A function as numba compiles it, for any types or only for those that are stated."""
    # Nothing of it goes to disk, so no folder is needed.
    if not cache or _config.DISABLE_JIT:
        return cast(Kernel, numba.njit(arguments, **options)(function))
    with _folders:
        # Set, used and put back under the lock: another thread's kernel must not get this module's folder.
        before, folder = _config.CACHE_DIR, code_folder(function.__module__)
        _config.CACHE_DIR = str(folder)
        try:
            jitted = cast(Kernel, numba.njit(arguments, cache=folder is not None, **options)(function))
        finally:
            _config.CACHE_DIR = before
    # With its types stated, the kernel has been compiled by now, and the process may be killed before it ends.
    if arguments is not None and folder is not None:
        seal(_place(folder))
    return jitted


@cache
def numba_type(kind: Any) -> Any:
    """The type that numba has for an annotation.

    Args:
        kind: A number; an array of `tallyveil.arrays`, which has one dimension if its name says nothing else; a
            tuple; a named tuple; a call, which becomes a pointer; a holder.
    """
    # Order matters: an array of several dimensions is an annotated one, and a named tuple is a class of tuples.
    container, parts = get_origin(kind), get_args(kind)
    if container is Annotated:
        base, detail = parts
        holder = base is Holder
        return (
            _HolderType([("kernels", numba_type(detail))]) if holder else numba_type(base).copy(ndim=detail)
        )
    if container is np.ndarray:
        # C: rows one after the other. An array of another layout is another type to numba.
        return _numba.Array(numba_type(get_args(parts[1])[0]), 1, "C")
    if container is Callable:  # of collections.abc
        arguments, result = parts
        return _numba.FunctionType(numba_type(result)(*map(numba_type, arguments)))
    if container is tuple:
        return _numba.Tuple(tuple(map(numba_type, parts)))
    if isinstance(kind, type) and issubclass(kind, tuple):
        fields = get_type_hints(kind, include_extras=True)
        return _numba.BaseTuple.from_types(tuple(map(numba_type, fields.values())), kind)
    return _numba.none if kind in (None, type(None)) else numba.from_dtype(np.dtype(kind))


def conforming(fields: Fields) -> Fields:
    """A named tuple of arrays, each writeable, stored in order and of the numbers that its annotation states.

    Other arrays are copied. Numba would call them of another type, and a kernel with one signature would refuse them.
    """
    # A copy is made only where something does not conform, so this costs nothing for arrays made here.
    arrays = (
        np.require(array, number, ["C", "W"])
        for array, number in zip(fields, _numbers(type(fields)), strict=True)
    )
    return type(fields)(*arrays)


@cache
def _numbers(kind: Any) -> tuple[Any, ...]:
    """What the arrays of a named tuple hold."""
    stated = get_type_hints(kind).values()
    return tuple(get_args(get_args(array)[1])[0] for array in stated)


def signature_of(function: Callable[..., Any]) -> Any:
    """The signature that the annotations of a function state."""
    stated = get_type_hints(function, include_extras=True)
    arguments = [numba_type(stated[name]) for name in inspect.signature(function).parameters]
    return numba_type(stated["return"])(*arguments)


def kernels_folder() -> Path:
    """The folder with the compiled code of all installations of this user."""
    with _folders:
        chosen = _config.CACHE_DIR  # NUMBA_CACHE_DIR, or numba's own file of settings
    if chosen:
        return Path(chosen).absolute() / "tallyveil" / "kernels"
    return user_cache() / "tallyveil" / "kernels"


def bytes_on_disk() -> int:
    """The size of all compiled code that is kept, of all installations of this user."""
    return sum(path.stat().st_size for path in kernels_folder().rglob("*") if path.is_file())


def remove_code() -> int:
    """Remove compiled code of all installations of this user. Running commands are not disturbed.

    Returns:
        How many bytes were removed.
    Raises:
        StoreError: A file cannot be removed.
    """
    # The size is taken before, since afterwards there is nothing to measure.
    folder, size = kernels_folder(), bytes_on_disk()
    try:
        for codes in folder.glob("*/*/"):
            with _only_writer(codes):
                shutil.rmtree(codes)
        if folder.is_dir():
            shutil.rmtree(folder)
    except OSError as error:
        raise StoreError(
            f"compiled code in {folder} cannot be removed ({error.strerror}). Remove this folder by hand, as a user "
            "who may do so and while no command of Tallyveil is running.",
            code="kernels-not-removed",
        ) from error
    with suppress(OSError):  # somebody else keeps something there
        folder.parent.rmdir()
    return size


def code_folder(module: str) -> Path | None:
    """Where numba keeps the compiled code of a module's kernels; None where no code can be kept."""
    return _prepared(kernels_folder() / module / sources_digest(module)[:20])
    # 80 bits of the digest, since paths are short on Windows


@cache
def _prepared(folder: Path) -> Path | None:
    """A folder into which numba can write: this one, or a copy of it if it is read-only; None if there is neither."""
    # Once for each folder and process.
    try:
        _make(folder)
        _remove_damaged(_place(folder))
    except OSError as error:
        copy = _copied(folder)
        if copy is None:
            _say_not_kept(kernels_folder(), str(error.strerror))
        return copy
    atexit.register(seal, _place(folder))
    _shared.add(folder)
    return folder


def _make(folder: Path) -> None:
    """Make a folder of code, and remove old code of other sources of the module.

    Raises:
        OSError: The folder cannot be made, or the disk takes no code.
    """
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        # By the time of the folder, which changes when code is added to it, not when it is read.
        oldest = time.time() - DAYS_KEPT * 24 * 60 * 60
        for other in folder.parent.iterdir():
            with suppress(FileNotFoundError):  # another process removes it, too
                if other.stat().st_mtime < oldest:
                    shutil.rmtree(other, ignore_errors=True)
    _place_carried(folder)
    # Tried by writing, not by asking: rights and free space say little on network disks and under quotas.
    with _only_writer(folder), TemporaryFile(dir=folder) as trial:
        if not any(folder.rglob("*.nbc")):
            trial.write(bytes(ROOM))


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Keep other processes and threads from writing into a folder of code, and from removing anything in it.

    Raises:
        OSError: The file of the lock cannot be written, or the disk has no locks.
    """
    # Beside the folder, so that it can be held while the folder is removed.
    path = folder.with_name(f"{folder.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)  # another process may have removed all code
    began = time.monotonic()
    try:
        while (descriptor := take_lock(path)) is None:
            if time.monotonic() - began > LONG_WAIT:
                _say_waiting(path)
            time.sleep(0.001)
    except StoreError as error:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), str(path)) from error
    try:
        yield
    finally:
        remove_locked(path, descriptor)


@cache  # once for a lock, not a thousand times a second
def _say_waiting(path: Path) -> None:
    logger.warning(
        "another process writes compiled code and holds %s; this one waits until it has finished", path
    )


class _Writing(threading.local):
    """What a thread has locked to write a kernel's code, and how often it has locked the compiler since."""

    lock: ExitStack | None = None
    depth = 0


class _OneWriter(Listener):
    """Lets one process at a time write code into a folder.

    Numba tells its listeners when it has compiled a kernel. Then it reads the index of the kernel, writes the index and
    the code, and tells its listeners that it has given back its lock of the compiler. The folder is locked between
    these two. So a process never waits while another one compiles, and never holds two folders.
    """

    def __init__(self) -> None:
        self._thread = _Writing()

    def on_start(self, event: Any) -> None:
        """A compilation begins, or this thread asks for the lock of the compiler."""
        if event.kind == "numba:compiler_lock" and self._thread.lock is not None:
            self._thread.depth += 1

    def on_end(self, event: Any) -> None:
        """A compilation has ended, or this thread has given back the lock of the compiler."""
        thread = self._thread
        if event.kind == "numba:compile":
            place = event.data["dispatcher"].stats.cache_path
            # Other packages' kernels, and those of a copy for this process alone, are nobody else's concern.
            if place is not None and Path(place).parent in _shared:
                thread.lock, thread.depth = ExitStack(), 0
                with suppress(OSError):  # numba cannot write there either, and says so
                    thread.lock.enter_context(_only_writer(Path(place).parent))
        elif thread.lock is not None and thread.depth > 0:
            thread.depth -= 1
        elif thread.lock is not None:
            lock, thread.lock = thread.lock, None
            lock.close()


_one_writer = _OneWriter()
for _kind in ("numba:compile", "numba:compiler_lock"):
    register(_kind, _one_writer)  # type: ignore[no-untyped-call]


def _copied(folder: Path) -> Path | None:
    """A copy of a read-only folder for this process, with carried code; None if there is no code, or no room."""
    # An image of a machine is warmed up once, and read-only afterwards. numba reads no code where it cannot write.
    with suppress(OSError):
        copy = Path(_copies().name) / folder.parent.name / folder.name
        for path in folder.rglob("*.nb[ci]*"):
            place = copy / path.relative_to(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # what cannot be read is left out
                # Contents and times alone: with the rights of a read-only folder, the copy would be as read-only.
                shutil.copyfile(path, place)
                os.utime(place, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        _remove_damaged(_place(copy))
        _place_carried(copy)
        if any(copy.rglob("*.nbc")):
            return copy
    return None


def _place_carried(folder: Path) -> None:
    """Copy carried code that fits to a folder of code, if this installation has none there.

    Raises:
        OSError: The code cannot be written there.
    """
    module = folder.parent.name
    # Of many modules a wheel carries nothing, which is no mismatch.
    if not (CARRIED / module).is_dir():
        return
    place = _place(folder)
    if place.is_dir():
        return
    codes = _carried(module)
    if not codes:
        _say_not_fitting(CARRIED)
        return
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as temporary:
        whole = Path(temporary) / place.name
        whole.mkdir()
        for name, code in codes.items():
            (whole / name).write_bytes(code)
        # All at once, so that no process sees an index without the code. Another process may have been first.
        with suppress(OSError):
            whole.rename(place)


def _carried(module: str) -> dict[str, bytes]:
    """The undamaged files of code that fit a module's sources, this compiler, Python and machine; none if none fit."""
    for name in covered_baselines():
        folder = CARRIED / module / sources_digest(module, baseline(name))[:20]
        codes = _codes(folder)
        with suppress(OSError):  # what cannot be read is as if it was not there
            if codes and all(map(_fits_seal, codes)):
                return {path.name: path.read_bytes() for path in codes}
    return {}


def covered_baselines() -> list[str]:
    """The names in `BASELINES` whose code this process can use, the best first."""
    if _config.CPU_NAME is not None or _config.CPU_FEATURES is not None:
        # Whoever chose a processor gets the code of this one, and no other.
        return [name for name in BASELINES if baseline(name) == this_processor()]
    features = this_processor().features.split(",")
    return [
        name
        for name, needed in BASELINES.items()
        if {f"+{feature}" for feature in needed.split()} <= {*features}
    ]


def _place(folder: Path) -> Path:
    """Where in a folder of code numba keeps that of this installation. Others may have the same sources."""
    return folder / _name_of_numba(str(sys.modules[folder.parent.name].__file__))


@cache
def _name_of_numba(file: str) -> str:
    """How numba names the folder with the code of a file, which it does by the place of the file."""
    # numba names the folder when it is given any function of that file, and also makes it. It is made in a temporary
    # folder that is removed at once, because it would be left over if the process were killed later.
    function = FunctionType((lambda: None).__code__.replace(co_filename=file), {})
    with _folders, TemporaryDirectory(prefix="tallyveil-kernels-") as temporary:
        before, _config.CACHE_DIR = _config.CACHE_DIR, temporary
        try:
            return Path(str(numba.njit(cache=True)(function).stats.cache_path)).name
        finally:
            _config.CACHE_DIR = before


@cache  # once, not for each module
def _say_not_fitting(folder: Path) -> None:
    logger.warning(
        "the compiled code in %s is damaged, or for other sources or another numba, Python or processor, so the first "
        "command compiles it anew",
        folder,
    )


def _codes(folder: Path) -> list[Path]:
    """The files that numba has written into a folder: indexes and compiled code."""
    return list(folder.rglob("*.nb[ci]"))


def _seal_of(path: Path) -> Path:
    return path.with_name(path.name + SEAL)


def seal(folder: Path) -> None:
    """Seal the files that have no seal, or that numba has written since."""
    for path in _codes(folder):
        with suppress(OSError):  # the disk is full, or another process has removed it
            if not _is_sealed(path):
                _write_seal(path)


def _write_seal(path: Path) -> None:
    """Seal a file, all at once: a process that is killed leaves no part of a seal, and no other process sees one.

    Raises:
        OSError: The file cannot be read, or the seal cannot be written.
    """
    sealed = _seal_of(path)
    # Not in the system's folder of temporary files, which may be on another disk, nor with the rights of such files.
    new = sealed.with_name(f"{sealed.name}.{os.getpid()}-{threading.get_ident()}")
    # Before the contents are read: if the file is replaced meanwhile, its time is another one than that of the seal.
    before = path.stat().st_mtime_ns
    try:
        new.write_text(hashlib.sha256(path.read_bytes()).hexdigest())
        os.utime(new, ns=(before, before))
        new.replace(sealed)
    finally:
        new.unlink(missing_ok=True)


def _remove_damaged(place: Path) -> None:
    """Remove the code of kernels of which a file is damaged, and seal the rest.

    Args:
        place: A folder with code, inside the one that is locked for writing.
    Raises:
        OSError: It cannot be removed.
    """
    if not all(map(_is_whole, _codes(place))):
        with _only_writer(place.parent):
            # Looked at again: another process may have removed and compiled them meanwhile.
            for path in _codes(place):
                if not _is_whole(path):
                    _remove_kernel(path)
    seal(place)


def _remove_kernel(damaged: Path) -> None:
    """Remove all code of the kernel that a file belongs to, since numba writes it anew under the same names.

    Raises:
        OSError: It cannot be removed.
    """
    # Not what another process is writing: numba gives it one of these names when it is whole.
    kernel = re.escape(re.sub(r"(\.\d+)?\.nb[ci]$", "", damaged.name))
    ours = re.compile(rf"{kernel}(\.\d+)?\.nb[ci]({re.escape(SEAL)})?")
    # By their names, the codes come before the index. A code that no index knows would be taken for the next code that
    # gets its number, by a process that reads the new index before the new code is written.
    for path in sorted(damaged.parent.iterdir()):
        if ours.fullmatch(path.name):
            with suppress(FileNotFoundError):  # removed by hand
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _is_sealed(path: Path) -> bool:
    """Whether a file has a seal of its own time.

    Raises:
        OSError: The file cannot be looked at.
    """
    sealed = _seal_of(path)
    return sealed.exists() and sealed.stat().st_mtime_ns == path.stat().st_mtime_ns


def _fits_seal(path: Path) -> bool:
    """Whether a file has the contents that its seal states.

    Raises:
        OSError: One of them cannot be read.
    """
    return _seal_of(path).read_bytes() == hashlib.sha256(path.read_bytes()).hexdigest().encode()


def _is_whole(path: Path) -> bool:
    """Whether a file can be read and fits its seal or, without a seal of its own time, can be read to its end."""
    try:
        if _is_sealed(path):
            if _fits_seal(path):
                return True
            # Asked again: another process may have replaced the file between the two looks.
            if _is_sealed(path):
                return False
        data = path.read_bytes()
    except OSError:
        return False
    # numba keeps pickles, one after the other. They are looked through here, and nothing of them is run.
    stream = BytesIO(data)
    try:
        while stream.tell() < len(data):
            for _ in pickletools.genops(stream):
                pass
    except ValueError:
        return False
    return bool(data)


@cache
def _copies() -> "TemporaryDirectory[str]":
    """A folder that is removed when the process ends."""
    return TemporaryDirectory(prefix="tallyveil-kernels-")


@cache  # once for a folder, not for each kernel
def _say_not_kept(folder: Path, why: str) -> None:
    logger.warning(
        "compiled code cannot be kept in %s (%s), so every command compiles it again. Set NUMBA_CACHE_DIR to a folder "
        "that can be written to, for every command",
        folder,
        why,
    )


def on_disk(kernel: Callable[..., Any]) -> bool:
    """Whether compiled code of a kernel and of its present sources is on disk, for some types of arguments."""
    # Without compilation there is nothing to wait for.
    if not is_jitted(kernel):
        return True
    # For some types: numba's names of files do not say which.
    folder = code_folder(kernel.__module__)
    return folder is not None and any(_place(folder).glob(f"*.{cast(Any, kernel).__qualname__}-*.nbc"))


def require_kept() -> None:
    """Refuse if code of a module that this process uses is not kept on disk.

    Raises:
        StoreError: A folder did not take the code. The message names one.
    """
    # A copy of the list, because another thread may import modules meanwhile.
    for name, module in list(sys.modules.items()):
        if not name.startswith(f"{__package__}.") or not any(map(is_jitted, vars(module).values())):
            continue
        wanted = kernels_folder() / name / sources_digest(name)[:20]
        if code_folder(name) != wanted:
            raise StoreError(
                f"the kernels were compiled, but the folder {wanted} did not keep all of "
                "their code, so that later commands compile it again. Make it a folder that can be written to, on a "
                "disk with space, or set NUMBA_CACHE_DIR to such a folder for every command.",
                code="kernels-not-kept",
            )


class Processor(NamedTuple):
    """A processor that code is compiled for, as numba's indexes of code name it."""

    system: str
    name: str
    features: str


def this_processor() -> Processor:
    """The processor that numba compiles for: the host's, or what its settings say."""
    features = llvmlite.binding.get_host_cpu_features()
    if not _config.ENABLE_AVX:
        features.update((name, False) for name in features if name.startswith("avx"))
    return Processor(
        llvmlite.binding.get_process_triple(),
        llvmlite.binding.get_host_cpu_name() if _config.CPU_NAME is None else _config.CPU_NAME,
        features.flatten() if _config.CPU_FEATURES is None else _config.CPU_FEATURES,
    )


def baseline(name: str) -> Processor:
    """A processor of `BASELINES` on this system."""
    return Processor(llvmlite.binding.get_process_triple(), name, "")


@cache
def sources_digest(module: str, processor: Processor | None = None) -> str:
    """SHA-256 of what compiled code of a loaded module comes from, in hexadecimal.

    These are its source, those of all modules of its package that it imports, the compiler, Python and the processor.

    Args:
        module: Its name.
        processor: What the code is compiled for, if not for `this_processor`.
    """
    sources: dict[str, bytes] = {}
    names = [module]
    while names:
        name = names.pop()
        # Imports may be reached in several ways; each module counts once.
        if name not in sources:
            source = _source(name)
            sources[name] = source.digest
            names += source.imported
    compiler = numba.__version__, llvmlite.__version__, sys.implementation.cache_tag
    digest = hashlib.sha256(" ".join(map(str, (*compiler, *(processor or this_processor())))).encode())
    # Sorted, so that the digest does not depend on the order of imports. The zero byte ends a name: no two lists of
    # sources give the same bytes.
    for name, of_source in sorted(sources.items()):
        digest.update(of_source + name.encode() + b"\0")
    return digest.hexdigest()


class _SourceFile(NamedTuple):
    digest: bytes
    imported: tuple[str, ...]


@cache
def _source(module: str) -> _SourceFile:
    """Digest of a loaded module's file, and the modules of the same package from which it imports names."""
    # The file's bytes, comments included: to tell a comment from code would need a parser, and a digest that is too
    # strict only compiles once more.
    data = Path(str(sys.modules[module].__file__)).read_bytes()
    package = re.escape(module.partition(".")[0]).encode()
    # Only `from tallyveil... import` at the start of a line: kernels import what they call at the top, by name.
    names = re.findall(rb"^from (" + package + rb"(?:\.\w+)*) import ", data, re.MULTILINE)
    return _SourceFile(hashlib.sha256(data).digest(), tuple(name.decode() for name in names))
