"""Fill in page templates: every value is escaped and made printable.

A page is one file that loads nothing else. At its top stands a summary: a few points in words that need no
explanation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

from tallyveil.files.finished import MANIFEST
from tallyveil.files.signatures import PAGE_DRAWN, signature_of
from tallyveil.printable import shown
from tallyveil.report.wording import detail_title, grouped, margin, percent, rounded, unbroken
from tallyveil.storage.write import write_text
from tallyveil.words.language import ENGLISH, Language, language_name

if TYPE_CHECKING:
    import polars as pl
    from jinja2 import BytecodeCache, Environment
    from jinja2.bccache import Bucket


@dataclass(frozen=True, slots=True)
class SummaryPoint:
    """One point of a summary.

    Attributes:
        heading: What it is about.
        text: Sentences.
    """

    heading: str
    text: str


def evaluation_points(far: str, language: Language = ENGLISH) -> tuple[SummaryPoint, ...]:
    """The summary of a page about errors against the true counts.

    Args:
        far: A sentence that says how far off published counts are.
        language: Of the page.
    """
    say = language.say
    return (
        SummaryPoint(
            say("What this page is"),
            say(
                "A comparison of the published counts with the true ones. It is for those who may see the records, to "
                "judge whether the counts are exact enough. It is not part of the release."
            ),
        ),
        SummaryPoint(say("How far off counts are"), far),
        SummaryPoint(
            say("What not to conclude"),
            say(
                "Another run of the same release has other noise and so other errors. A mean error over many counts "
                "says nothing about a single one."
            ),
        ),
    )


@dataclass(frozen=True, slots=True)
class NumberTile:
    """One number that stands out at the top of a page.

    Attributes:
        name: What it is.
        value: The number, as text.
        note: What it refers to.
    """

    name: str
    value: str
    note: str


REPORT: Final = "report.html"
"""The page of a release, in its folder."""


def write_release_page(
    root: Path, template: str, values: dict[str, Any], *, module: str, signed: str = MANIFEST
) -> Path:
    """Write the page of a release or of a programme, which also says who signed its list of files.

    Args:
        root: The folder.
        template: As for `write_page`; so are `values`, with the points of the summary, and `module`.
        values: See there.
        module: See there.
        signed: Name of the file that lists the others.
    Raises:
        StoreError: the page cannot be written, or a signature cannot be read.
    """
    return write_page(root / REPORT, template, signed_values(root, signed, values, ENGLISH), module=module)


@dataclass(frozen=True, slots=True)
class Edition:
    """A page in a language of its release.

    Attributes:
        tag: The language, as the release names it.
        language: The language of its sentences, which may be another where the product has none in this one.
        values: Values of the template's variables.
    """

    tag: str
    language: Language
    values: dict[str, Any]


def write_editions(path: Path, template: str, editions: Sequence[Edition], *, module: str = __name__) -> Path:
    """Write a page in all languages of its release, among which its reader chooses on the page.

    Args:
        path: File to write.
        template: As for `write_page`, with the block `content`.
        editions: In each language; the first is shown until a reader chooses.
        module: As for `write_page`.
    Raises:
        StoreError: the file cannot be written.
    """
    shown_editions = []
    for edition in editions:
        environment = _templates(module, edition.language, anchor_suffix(edition.tag, editions[0].tag))
        page_template = environment.get_template(template)
        content = page_template.render({**edition.values, "layout": "content.html.j2"})
        title = "".join(page_template.blocks["title"](page_template.new_context(edition.values)))
        shown_editions.append(
            {
                "tag": edition.tag,
                "language": edition.language,
                "name": language_name(edition.tag),
                "title": Markup(title),
                "content": Markup(content),
            }
        )
    pages = _templates(module, editions[0].language, "").get_template("editions.html.j2")
    write_text(path, pages.render({"editions": shown_editions}))
    return path


def anchor_suffix(tag: str, first: str) -> str:
    """What follows the ids of a page in a language, so that those of all languages differ."""
    return "" if tag == first else f"-{tag}"


def signed_values(root: Path, signed: str, values: dict[str, Any], language: Language) -> dict[str, Any]:
    """The values of a page, with the point that says who signed the list of files; raises as `write_release_page`."""
    sentence = signature_of(root / signed).sentence(signed, PAGE_DRAWN, language)
    return {**values, "points": (*values["points"], SummaryPoint(language.say("Who signed it"), sentence))}


def write_page(path: Path, template: str, values: dict[str, Any], *, module: str = __name__) -> Path:
    """Fill in a template and write the page. After a failure, no incomplete page is left.

    Args:
        path: File to write.
        template: Name of a template, in a folder `templates` beside the module or beside this one.
        values: Values of the template's variables.
        module: Name of the module that the page belongs to.
    Raises:
        StoreError: the file cannot be written.
    """
    page = _templates(module, ENGLISH, "").get_template(template)
    write_text(path, page.render({"layout": "page.html.j2", **values}))
    return path


@cache
def _templates(module: str, language: Language, suffix: str) -> "Environment":
    """The templates of a product, and those that all products share. A process compiles each of them once, for all
    languages.

    Args:
        module: Name of the module that the page belongs to.
        language: In which its sentences are said.
        suffix: What follows its ids.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, pass_context

    plain = _plain_in(language)
    environment = Environment(
        # A product's own templates come first, and extend those of this room by name.
        loader=ChoiceLoader([PackageLoader(module), PackageLoader(__name__)]),
        # Every value may hold names that people chose.
        autoescape=True,
        # With the context, jinja2 calls this when a page is written. Without it, constants would be finalised when the
        # template is compiled, in the language of the first page, and later languages would get the same code.
        finalize=pass_context(lambda _, value: plain(value)),
        bytecode_cache=_compiled_templates(),
        # A misspelled variable in a template is an error and no empty text.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"grouped": grouped, "margin": margin, "percent": percent, "unbroken": unbroken}

    def say(sentence: str, /, **values: Any) -> Markup:
        # Sentences are this program's own and may hold markup; what stands in them is escaped.
        said = language.say(sentence)
        return Markup(
            said.format(**{name: escape(plain(value)) for name, value in values.items()}) if values else said
        )

    def stated(sentence: str) -> str:
        """A sentence that the release states, as it stands where the language has no other."""
        # Here, since pages are drawn by few of those who open a release, and this imports how intervals are made.
        from tallyveil.report.stated import STATED

        said = language.stated(sentence, STATED)
        if said is not None:
            return said
        return Markup('<span lang="{}">{}</span>').format(ENGLISH.tag, shown(sentence))

    environment.globals |= {
        "say": say,
        "stated": stated,
        "tag": language.tag,
        "anchor": lambda name: f"{name}{suffix}",
    }
    return environment


@cache
def _compiled_templates() -> "BytecodeCache":
    """The compiled templates of this process, by file and digest of the text."""
    from jinja2 import BytecodeCache

    class Compiled(BytecodeCache):
        def __init__(self) -> None:
            self.codes: dict[tuple[str, str], CodeType] = {}

        def load_bytecode(self, bucket: "Bucket") -> None:
            bucket.code = self.codes.get((bucket.key, bucket.checksum))

        def dump_bytecode(self, bucket: "Bucket") -> None:
            if bucket.code is not None:
                self.codes[bucket.key, bucket.checksum] = bucket.code

    return Compiled()


def _plain_in(language: Language) -> Callable[[Any], Any]:
    """Write numbers as a language does, and plain text printable, without characters that reverse its direction."""

    def plain(value: Any) -> Any:
        value = language.figure(value)
        # Markup is a subclass of str and has been made by this program.
        return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    return plain


def frame_texts(frame: "pl.DataFrame", title: Callable[[str], str] = detail_title) -> dict[str, Any]:
    """A frame as headings and rows of text; `title` says how a text of the frame is shown."""

    def text(name: str, value: Any) -> str:
        if value is None:
            return "–"
        # Before int, because True is an int.
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str):
            return title(value)
        if "within" in name or name.startswith("share"):
            return percent(value)
        return (grouped(value) if isinstance(value, int) else rounded(value, 4)).replace("-", "−")

    rows = [[text(name, row[name]) for name in frame.columns] for row in frame.iter_rows(named=True)]
    return {"headings": [detail_title(name.lower()) for name in frame.columns], "rows": rows}
