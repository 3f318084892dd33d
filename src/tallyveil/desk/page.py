"""The page of the desk: a draft of a release file, served to the browser of this machine until the block ends."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tallyveil.desk.draft import Draft
from tallyveil.desk.questions import cost_sentences, view_of
from tallyveil.desk.steps import Faults
from tallyveil.errors import ConfigError
from tallyveil.explore.files import copy_pages, copy_words
from tallyveil.explore.serving import served
from tallyveil.storage.json_files import JsonObject
from tallyveil.words.language import TAGS, language_of

PAGES: Final = {"index.html": Path("app", "desk", "index.html")}


class DeskPage:
    """What the page asks, and what it is answered. One question at a time: a browser sends several at once."""

    def __init__(self, draft: Draft) -> None:
        self._draft, self._lock = draft, threading.Lock()

    def answer(self, asked: JsonObject) -> JsonObject:
        """Answer a question: the view after it, what was asked for, and what is wrong, if anything.

        Args:
            asked: `ask` is "view", "take" (with `step` and `answers`), "costs" or "write"; `language` is that of the
                reader.
        """
        with self._lock:
            self._draft.language = language_of(str(asked.get("language")))
            faults, costs = Faults(), []
            with faults.noted():
                costs = self._done(asked)
            problems = [*faults.problems, *faults.unsaid]
            return {
                "problems": problems,
                "errors": faults.errors,
                "costs": costs,
                "view": view_of(self._draft),
            }

    def _done(self, asked: JsonObject) -> list[str]:
        """Do what is asked, and tell what each wish costs if that is the question."""
        match asked.get("ask"):
            case "view":
                return []
            case "take":
                said = asked.get("answers")
                self._draft.take(str(asked.get("step")), said if isinstance(said, dict) else {})
                return []
            case "costs":
                return list(cost_sentences(self._draft))
            case "write":
                self._draft.write()
                return []
        raise ConfigError(
            "the page asked something that the desk does not know. Load it again.", code="bad-argument"
        )


@contextmanager
def served_desk(folder: Path) -> Iterator[str]:
    """Serve the desk of a folder to the browser of this machine.

    Args:
        folder: Where the records are, and where the draft and the release file are written.
    Yields:
        The address, with a secret in it.
    Raises:
        StoreError: there is no such folder, its draft cannot be read, or another desk is open in it.
    """
    with Draft.held(folder) as draft, TemporaryDirectory(prefix="tallyveil-desk-") as site:
        copy_pages(Path(site), PAGES)
        copy_words(Path(site), TAGS)
        with served(Path(site), answer=DeskPage(draft).answer) as address:
            yield address
