"""What every page must be, whatever product it is of: one file, with headings in order, and readable by everybody."""

import html
import re
from collections.abc import Collection
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

VOID = {"meta", "br", "link", "img", "hr", "input"}
ACTIVE = {"script", "link", "img", "iframe", "object", "embed", "base", "form", "image"}


def text_of(page: Path) -> str:
    """What a reader sees, in one line."""
    body = re.sub(r"<style.*?</style>", "", page.read_text(), flags=re.DOTALL)
    body = re.sub(r"<sup>(.*?)</sup>", r"^\1", body)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", body)))


class PageParser(HTMLParser):
    """Collects tags, attributes and ids, and checks that elements nest."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.inside: list[tuple[str, str | None]] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside.append((tag, self._open[-1] if self._open else None))
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    @classmethod
    def parse(cls, page: Path) -> "PageParser":
        parser = cls()
        parser.feed(page.read_text())
        parser.close()
        assert parser._open == []
        return parser

    def values(self, name: str, of: str | None = None) -> list[str]:
        """Values of an attribute, of all tags or of one."""
        return [value or "" for tag, own, value in self.attributes if own == name and of in (None, tag)]


def require_readable(page: Path, links: Collection[str] = ()) -> PageParser:
    """Check a page of any product; it may lead to other pages of the same folder, which it does not load."""
    parsed = PageParser.parse(page)
    _loads_nothing(page, parsed, links)
    assert parsed.values("lang", "html") == ["en"]
    assert re.search(r"<title>\s*\S", page.read_text())
    assert "width=device-width" in "".join(parsed.values("content", "meta"))
    headings = [int(tag[1]) for tag in parsed.tags if re.fullmatch(r"h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(low <= high + 1 for high, low in pairwise(headings)), headings
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    wanted = re.findall(r'(?:url\(#|href="#)([^")]+)', page.read_text())
    assert set(wanted) <= set(ids)
    assert "#content" in parsed.values("href", "a")
    assert parsed.tags.count("svg") == parsed.tags.count("figure") == parsed.tags.count("figcaption")
    _describes_figures(page.read_text(), parsed)
    assert all(scope in ("col", "row") for scope in parsed.values("scope", "th"))
    assert len(parsed.values("scope", "th")) == parsed.tags.count("th")
    for sentence in re.findall(r"<figcaption><strong>(.*?)</strong>", page.read_text(), re.DOTALL):
        assert re.search(r"\d", sentence), sentence  # it is computed from what is drawn
        assert sentence.endswith(".")
    words = text_of(page)
    for symbol in ("ε", "ρ"):  # a letter is explained before it is used
        if symbol in words and "NOT PRIVATE: computed" not in words:
            assert 0 <= words.index("privacy-loss budget") < words.index(symbol)
    return parsed


def _describes_figures(text: str, parsed: PageParser) -> None:
    """Every figure has a title and a longer description, and names both."""
    titles, descriptions = (
        dict(re.findall(rf'<{tag} id="([^"]+)">(.*?)</{tag}>', text)) for tag in ("title", "desc")
    )
    assert parsed.tags.count("svg") == len(titles) == len(descriptions)
    assert parsed.values("aria-labelledby", "svg") == list(titles)
    assert parsed.values("aria-describedby", "svg") == list(descriptions)
    assert all(titles.values())
    assert all(len(description) > 20 for description in descriptions.values())


def _loads_nothing(page: Path, parsed: PageParser, links: Collection[str]) -> None:
    text = page.read_text()
    assert not set(parsed.tags) & ACTIVE
    for tag, name, value in parsed.attributes:
        assert not name.startswith("on"), (tag, name)
        if name in ("href", "xlink:href", "src", "srcset", "data", "action", "poster"):
            to_page = (tag, name) == ("a", "href") and value in links and (page.parent / value).is_file()
            assert to_page or (value or "").startswith("#"), (tag, name, value)
    assert not re.search(r"url\((?!#)", text)
    assert "@import" not in text
    assert "default-src 'none'" in text
