"""An executor whose work is done as a worker process on another machine does it, in this process."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from tallyveil.runs.executor import Chunks, Executor, Site


class Elsewhere:
    """Does every chunk as a worker process does, and writes and reads its result."""

    is_remote = True
    threads = 1

    def __init__(self) -> None:
        self.works: list[str] = []
        self.sites: list[Site] = []
        self.folder = Path()

    @contextmanager
    def begin(self, folder: Path) -> Iterator[Executor]:
        self.folder = folder
        folder.mkdir()
        yield self

    def serve(self, make: Callable[[], Site]) -> None:
        site = make()
        module, _, function = site.opener.partition(":")
        self.sites.append(site)
        self.opened = getattr(import_module(module), function)(
            json.loads(json.dumps(site.description)), site.secret
        )

    def share(self, name: str, write: Callable[[Path], None]) -> None:
        (self.folder / "shared").mkdir(exist_ok=True)
        write(self.folder / "shared" / name)

    def completed(self, chunks: Chunks[Any], numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
        self.works += [chunks.address["work"]] * len(numbers)
        for number in reversed(numbers):
            own = self.opened.chunks(json.loads(json.dumps(chunks.address)))
            path = self.folder / f"result-{len(list(self.folder.iterdir()))}"
            own.write(number, own.work(number), path)
            yield number, chunks.read(path)
