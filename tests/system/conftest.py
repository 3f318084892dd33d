"""Shared by the system tests: work that ends at a chosen write, as a kill would end it."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import tallyveil.storage.write as writing


class Killed(BaseException):
    """Stands for the process ending at once."""


@pytest.fixture
def killed_at(monkeypatch) -> Callable[..., bool]:
    """End work at its n-th written file, before the bytes are written or just after; whether it came so far."""

    def act(
        number: int,
        work: Callable[[], Any],
        *,
        before: bool = False,
        modules: tuple[ModuleType, ...] = (writing,),
    ) -> bool:
        original, calls = writing.write_file, [0]

        def write_file(path, write):
            calls[0] += 1
            if calls[0] == number and before:
                raise Killed
            original(path, write)
            if calls[0] == number:
                raise Killed

        with monkeypatch.context() as patch:
            for module in modules:
                patch.setattr(module, "write_file", write_file)
            try:
                work()
            except Killed:
                return True
        return False

    return act
