"""A finished folder of any product: its manifest, its guarantee and its page."""

from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tallyveil.accounting.numbers import at_most
from tallyveil.api.arguments import fixed
from tallyveil.api.products import PRODUCTS, write_page
from tallyveil.files.finished import MANIFEST
from tallyveil.files.manifest import Manifest, ReleaseKind, Spent
from tallyveil.files.marks import NOT_PRIVATE, marks_of, short_mark
from tallyveil.files.signatures import signature_of
from tallyveil.printable import described

if TYPE_CHECKING:
    from tallyveil.api.verifying import Verdict


AnyOpened = TypeVar("AnyOpened", bound="Opened")


class Opened:
    """A finished folder.

    Attributes:
        path: The folder, as a path from the root: it stays this folder when the current folder changes.
        manifest: Content of its `manifest.json`.
        already_finished: Whether it was finished before the call that returned this object, which then did nothing.
    """

    def __init__(self, path: Path, manifest: Manifest, *, already_finished: bool = True) -> None:
        self.path = fixed(path)
        self.manifest = manifest
        self.already_finished = already_finished

    @property
    def kind(self) -> str:
        """The product, as in the manifest: `topdown`, `topdown-measurements`, `safetab` and so on."""
        return self.manifest.kind.value

    @property
    def protected(self) -> bool:
        """Whether the noise came from a secret key. If it did not, the folder protects nobody."""
        return self.manifest.protected

    @property
    def warnings(self) -> tuple[str, ...]:
        """What must be said wherever the release is shown."""
        return marks_of(self.manifest).warnings

    @property
    def signature(self) -> str:
        """Of the manifest: "signed by" with the fingerprint of a key, "unsigned", or "signature does not fit"."""
        return str(signature_of(self.path / MANIFEST))

    @property
    def privacy(self) -> dict[str, Any]:
        """The guarantee as plain data, as it follows from ledger, plan and public inputs."""
        return dict(self._with_guarantee.privacy)

    @cached_property
    def _with_guarantee(self) -> Manifest:
        return PRODUCTS[self.manifest.kind].guarantee(self.path, self.manifest)

    if not TYPE_CHECKING:  # type checkers would take every name for one that is there

        def __getattr__(self, name: str) -> Any:
            # Python asks here for what is missing. `tallyveil.open` gives what the folder holds, often without tables.
            is_ours = name.startswith("_") or "manifest" not in vars(self) or hasattr(type(self), name)
            if is_ours or self.manifest.kind is ReleaseKind.TOPDOWN:
                return self.__getattribute__(name)  # raises Python's own error
            raise AttributeError(
                f"{self.path} holds what `{self.manifest.kind.command}` made, which has no {name!r}. Tables, areas and "
                f"intervals can be asked for in a release of `{ReleaseKind.TOPDOWN.command}`. {self._instead}"
            )

    def report(self) -> Path:
        """Write the page of the release again, from its published files.

        Returns:
            Path of the HTML file.
        Raises:
            StoreError: there is no page for this product, or the folder was changed.
        """
        return write_page(self.path)

    def verify(self, *, whole: bool = False) -> "Verdict":
        """Derive again what the folder says of itself, as `tallyveil.verify` does; raises StoreError."""
        from tallyveil.api.verifying import verify

        return verify(self.path, whole=whole)

    def _lines(self) -> list[tuple[str, str]]:
        """What notebooks show of the folder."""
        return [
            *((NOT_PRIVATE, warning) for warning in self.warnings),
            ("spent", _spent(self.manifest.spent)),
            ("signature", self.signature),
            ("checks", f"{len(self.manifest.checks)} passed"),
            ("files", f"{len(self.manifest.files):,}"),
            ("folder", str(self.path)),
        ]

    @property
    def _instead(self) -> str:
        """What to do for what only a release of the main product has."""
        return "The published tables of this folder are files, which `manifest.files` lists."

    def _lead(self) -> str:
        """What the folder is, in a sentence."""
        return ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}: {self.kind}, run {self.manifest.run}{short_mark(self.warnings)}>"

    def _repr_html_(self) -> str:
        # The name of the release, or of the command that made it if it has none.
        title = self.manifest.body.get("name", self.manifest.kind.command)
        return described(f"{title} · run {self.manifest.run}", self._lines(), self._lead())


def with_page(folder: AnyOpened) -> AnyOpened:
    """A finished folder, whose page is written unless it is there already; raises StoreError."""
    if not (folder.path / "report.html").exists():
        folder.report()
    return folder


def _spent(spent: Spent) -> str:
    """What was spent and declared, in a few digits; an exact number that needs more of them is added."""
    text = f"{spent.unit} = {at_most(spent.spent, 4)} of {at_most(spent.declared, 4)} declared"
    return text if Fraction(at_most(spent.spent, 4)) == spent.spent else f"{text}; exactly {spent.spent}"
