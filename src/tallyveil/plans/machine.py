"""The memory of the machine that predictions are held to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tallyveil.storage.system import whole_memory


def machine_memory(limits: Sequence[Path] | None = None) -> int:
    """Bytes of memory that this process may use: those of the machine, or of its container if that has less.

    Args:
        limits: Files holding a limit in bytes, or "max"; None for those of Linux control groups.
    Returns:
        The smallest of them.
    """
    known = [whole_memory()]
    for path in CONTAINER_LIMITS if limits is None else limits:
        text = path.read_text().strip() if path.is_file() else ""
        if text.isdecimal():
            known.append(int(text))
    return min(size for size in known if size > 0)


CONTAINER_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def in_gib(size: int) -> str:
    """A number of bytes as text, such as "3.2 GiB"."""
    return f"{size / (1 << 30):.1f} GiB"
