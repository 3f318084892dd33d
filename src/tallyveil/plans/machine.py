"""The memory that predictions are held to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tallyveil.storage.system import limited_memory, whole_memory


def machine_memory(limits: Sequence[Path] | None = None) -> int:
    """Bytes of memory that this process may use: those of the machine, its container or its limit, whichever is least.

    Args:
        limits: Files holding a limit in bytes, or "max"; None for those of Linux control groups.
    Returns:
        The smallest of them.
    """
    known = [whole_memory()]
    limited = limited_memory()
    for path in CONTAINER_LIMITS if limits is None else limits:
        text = path.read_text().strip() if path.is_file() else ""
        # "max", or no file, sets no limit.
        if text.isdecimal():
            known.append(int(text))
    # A system that does not tell its memory gives 0, which is no limit of 0 bytes.
    least = min(size for size in known if size > 0)
    return least if limited is None else min(least, limited)


CONTAINER_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def in_gib(size: int) -> str:
    """A number of bytes as text, such as "3.2 GiB"."""
    return f"{size / (1 << 30):.1f} GiB"
