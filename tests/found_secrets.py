"""Where secrets and true counts of a run could be found by others: files, command lines, environments and memory."""

import base64
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import psutil

PIECE = 64 << 20
"""Bytes of memory that are read at once."""


def keys_as_found(secret: bytes) -> list[bytes]:
    """A key as it may be found: its bytes, and what hexadecimal, base64 and Python make of it."""
    encoded = [base64.b64encode(b"\0" * shift + secret)[4:-4] for shift in range(3)]
    return [secret, secret.hex().encode(), secret.hex().upper().encode(), repr(secret).encode(), *encoded]


def counts_as_found(counts: Sequence[int]) -> list[bytes]:
    """Neighbouring counts as they may be found: two in a row as numbers, and each one as text."""
    pairs = list(pairwise(counts))
    numbers = [b"".join(one.to_bytes(size, "little") for one in pair) for pair in pairs for size in (4, 8)]
    return numbers + [text.encode() for one in counts for text in (str(one), f"{one:,}", f"{one:_}")]


def files_with(needles: Iterable[bytes], *folders: str | Path, without: Iterable[Path] = ()) -> list[Path]:
    """Files in these folders, and command lines and environments of all processes, that hold one of the needles."""
    wanted = pattern(needles)
    files = [path for folder in folders for path in Path(folder).rglob("*")]
    files += [path for one in Path("/proc").glob("[0-9]*") for path in (one / "cmdline", one / "environ")]
    found = []
    for path in sorted(set(files) - set(without)):
        try:
            content = path.read_bytes() if path.is_file() else b""
        except OSError:  # a socket, or a process that has just ended
            continue
        if wanted.search(content):
            found.append(path)
    return found


def processes_with(needles: Iterable[bytes], processes: Iterable[psutil.Process]) -> list[str]:
    """Command lines of the processes whose memory holds one of the needles."""
    wanted = pattern(needles)
    return [" ".join(one.cmdline()) for one in processes if any(wanted.search(part) for part in _memory(one))]


def pattern(needles: Iterable[bytes]) -> re.Pattern[bytes]:
    """Finds any of the needles."""
    return re.compile(b"|".join(map(re.escape, needles)))


def _memory(process: psutil.Process) -> Iterable[bytes]:
    """The memory of a process that it can write to, in pieces; needles across two pieces are not seen."""
    root = Path("/proc") / str(process.pid)
    spans = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw", (root / "maps").read_text(), re.MULTILINE)
    with (root / "mem").open("rb", buffering=0) as memory:
        for first, last in ((int(a, 16), int(b, 16)) for a, b in spans):
            for start in range(first, last, PIECE):
                try:
                    memory.seek(start)
                    yield memory.read(min(PIECE, last - start))
                except OSError:  # pages that the kernel keeps for itself
                    break
