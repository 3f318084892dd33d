import hashlib
import html
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tallyveil.accounting.events import NonPrivateEvent
from tallyveil.accounting.ledger.file import Ledger
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.accounting.zcdp import zcdp_to_epsilon
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import StoreError
from tallyveil.report import write_report
from tallyveil.storage.write import file_digest
from tallyveil.universe.presets import load_preset
from tallyveil.universe.unit import unit_of

Edit = Callable[[Path, Callable[[dict[str, Any]], None]], None]
VOID = {"meta", "br", "link", "img", "hr", "input"}


def text_of(page: Path) -> str:
    """What a reader sees, in one line."""
    body = re.sub(r"<style.*?</style>", "", page.read_text(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", body)))


class PageParser(HTMLParser):
    """Collects tags, attributes and ids, and checks that elements nest."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str | None]] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
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


def test_says_what_the_guarantee_is(redistricting: Path) -> None:
    text = text_of(write_report(redistricting))
    by_rho = zcdp_to_epsilon(Fraction(293764, 114921), Fraction(1, 10**10))
    proved = 16.4651553768  # of the manifest
    # The tile: what is proved stands first, what the budget alone would allow beside it.
    tile = re.findall(
        r"Differential privacy ε ≤ ([\d.]+) at δ = 10⁻¹⁰, bounded neighbours; ρ alone allows ε ≤ ([\d.]+)",
        text,
    )
    assert proved <= Fraction(tile[0][0]) < proved + 0.001
    assert by_rho <= Fraction(tile[0][1]) < by_rho + 0.001
    plain = text.replace("\xa0", " ")
    proof, budget = (
        f"with ε ≤ {tile[0][0]} at δ = 10⁻¹⁰",
        f"From ρ alone follows only ε ≤ {tile[0][1]} at δ = 10⁻¹⁰",
    )
    assert 0 < plain.index(proof) < plain.index(budget)
    for statement in (
        "Redistricting counts of Rhode Island",
        "counts 200,000 people by hhgq, votingage, hispanic and cenrace, at 6 geolevels from US to Block",
        "one person’s record differs in its place or characteristics, while the number of records stays the same",
        "discrete Gaussian law",
        "ρ = 2.557 (exactly 293764/114921)",
        "100 % of what was declared",
        "total at State (invariant). The guarantee compares only populations that agree on this statistic",
        "The bounds “group quarters” on hhgq at Block. They were used as given and cost no budget.",
        "Whatever is computed from the output alone is as private as the output.",
        "These margins are those of the noisy measurements, before estimation.",
        "no count is negative",
        "6 passed",
    ):
        assert statement in text
    assert "NOT PRIVATE" not in text
    assert "no budget pays for" not in text


def test_shows_the_numbers_of_plan_manifest_and_counts(redistricting: Path) -> None:
    text = text_of(write_report(redistricting))
    # Published margins of the production strategy: 1.96 standard deviations of 1.1 and 89 persons.
    assert "total not measured ± 2 ± 4 ± 5 ± 3 ± 175 " in text
    assert " 65 2.557 " in text  # measurements and cost in the ledger
    assert "State 1 0 200,000 200,000 200,000 657" in text
    assert "Block 3,000 2,888 37 75 75 2,925 0 1.9 × 10⁻⁸" in text
    assert "an only child has its parent's counts" in text
    assert "measure Block Group" in text
    assert "numpy 2.1.3" in text
    assert file_digest(redistricting / "histogram" / "Block.parquet") in text


def test_shows_every_measurement(redistricting: Path) -> None:
    text = text_of(write_report(redistricting))
    line = r"(US|State|County|Tract|Block Group|Block) [a-z*]+ [\d.]+ % [\d.,]+ [\d.,]+ ± \d+ "
    assert len(re.findall(line, text)) == 65
    # The block total: sigma squared = 1 / (rho * 165/4099 * 5/4097).
    variance = 1 / (Fraction(293764, 114921) * Fraction(165, 4099) * Fraction(5, 4097))
    assert f"Block total 0.0049 % {float(variance):,.0f} 89.2 ± 175 {variance}" in text


def test_is_one_file_that_loads_nothing(redistricting: Path) -> None:
    page = write_report(redistricting)
    parsed = PageParser.parse(page)
    assert not parsed.tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "image"}
    for tag, name, value in parsed.attributes:
        assert not name.startswith("on"), (tag, name)
        if name in ("href", "xlink:href", "src", "srcset", "data", "action", "poster"):
            assert value is not None
            assert value.startswith("#"), (tag, name, value)
    assert not re.search(r"url\((?!#)", page.read_text())
    assert "@import" not in page.read_text()
    assert "default-src 'none'" in page.read_text()


def test_ids_are_unique_and_references_reach_them(redistricting: Path) -> None:
    page = write_report(redistricting)
    parsed = PageParser.parse(page)
    ids = [value for _, name, value in parsed.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    references = set(re.findall(r'(?:url\(#|href="#)([^")]+)', page.read_text()))
    assert references
    assert references <= set(ids)


def test_figures_have_alternative_text_and_captions(redistricting: Path) -> None:
    parsed = PageParser.parse(write_report(redistricting))
    labels = [value for tag, name, value in parsed.attributes if tag == "svg" and name == "aria-label"]
    assert len(labels) == 3
    assert labels[0] is not None
    assert labels[0].startswith("Bars: US 2.54 % of the budget; State 35.1 %")
    assert {"figure", "figcaption"} <= parsed.tags
    assert ("html", "lang", "en") in parsed.attributes


def test_the_same_release_gives_the_same_bytes(redistricting: Path) -> None:
    first = write_report(redistricting).read_bytes()
    assert write_report(redistricting).read_bytes() == first
    # In another process, with another hash seed and a reader's own plot style.
    style = redistricting.parent / "matplotlibrc"
    style.write_text("axes.facecolor: red\nfont.size: 30\nsvg.fonttype: path\n")
    command = "import sys, pathlib; from tallyveil.report import write_report; write_report(pathlib.Path(sys.argv[1]))"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "MATPLOTLIBRC": str(style)}
    subprocess.run([sys.executable, "-c", command, str(redistricting)], check=True, env=environment)
    again = (redistricting / "report.html").read_bytes()
    assert hashlib.sha256(again).digest() == hashlib.sha256(first).digest()


def test_names_are_text_and_never_markup(make_race_age: Callable[..., Path], rewrite: Edit) -> None:
    attack = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(1)> $x$ {{ 7 * 7 }}"
    root = make_race_age(name=attack)
    rewrite(root / "manifest.json", lambda manifest: manifest["checks"].append(attack))
    page = write_report(root)
    parsed = PageParser.parse(page)
    assert not parsed.tags & {"script", "img"}
    assert f"{attack}: release report" in html.unescape(page.read_text())
    assert text_of(page).count("{{ 7 * 7 }}") >= 3


def test_odd_names_of_geolevels_and_queries_do_not_break_the_figures(
    make_race_age: Callable[..., Path],
) -> None:
    odd = 'a<b>&"#1 id="x $\\frac$ -->'
    strategy = Strategy(
        Mechanism.DISCRETE_GAUSSIAN,
        Neighbours.BOUNDED,
        Fraction(1),
        (("state", Fraction(1, 2)), ("block", Fraction(1, 2))),
        (("state", ((odd, Fraction(1)),)), ("block", ((odd, Fraction(1)),))),
    )
    page = write_report(make_race_age(strategy=strategy))
    PageParser.parse(page)
    assert html.unescape(page.read_text()).count(odd) >= 4


def test_an_insecure_key_is_impossible_to_overlook(make_race_age: Callable[..., Path]) -> None:
    text = text_of(write_report(make_race_age(protected=False)))
    assert text.index("NOT PRIVATE: made with an insecure test key") < text.index("Release report")
    assert "The guarantee below does not hold for this release" in text
    assert "destroyed when the run ends. The guarantee" not in text


@pytest.mark.parametrize("stated", ["true", 1, None])
def test_only_a_plain_true_or_false_says_whether_a_release_protects(
    make_race_age: Callable[..., Path], rewrite: Edit, stated: Any
) -> None:
    root = make_race_age()
    rewrite(root / "manifest.json", lambda manifest: manifest.update(protected=stated))
    with pytest.raises(StoreError, match="'protected' is missing or is not what the run wrote"):
        write_report(root)


def test_laplace_noise_is_pure_differential_privacy(make_race_age: Callable[..., Path]) -> None:
    total = Fraction(7, 3)
    shares = ((("state", Fraction(1)),), (("state", (("total", Fraction(1)),)),))
    strategy = Strategy(Mechanism.DISCRETE_LAPLACE, Neighbours.UNBOUNDED, total, *shares)
    text = text_of(write_report(make_race_age(strategy=strategy, declared=total)))
    assert "Pure differential privacy with ε ≤ 2.334 :" in text  # rounded up, not to the nearest
    assert "one of them has one person’s record more" in text
    assert "Zero-concentrated" not in text
    assert "the exact scale of the discrete Laplace law" in text


def test_a_look_at_the_records_is_told(make_race_age: Callable[..., Path]) -> None:
    root = make_race_age()
    assert "Nothing: there are no invariants." in text_of(write_report(root))
    declaration = Declaration("rho", Fraction(2), Neighbours.BOUNDED)
    with Ledger(root / "ledger.jsonl", declaration, "later") as ledger:
        ledger.declassify(NonPrivateEvent("to measure its error"), "true counts declassified", "evaluate")
    text = text_of(write_report(root))
    assert "The ledger records an act that no budget pays for" in text
    assert "2 true counts declassified (to measure its error) 0 not private" in text
    assert "50 % of what was declared" in text


def test_what_is_no_finished_release_is_refused(make_race_age: Callable[..., Path], rewrite: Edit) -> None:
    root = make_race_age()
    rewrite(root / "plan.json", lambda plan: plan.update(name="another"))
    with pytest.raises(StoreError, match="describe different plans"):
        write_report(root)
    (root / "plan.json").write_text("[]")
    with pytest.raises(StoreError, match="holds no JSON object"):
        write_report(root)
    (root / "manifest.json").unlink()
    with pytest.raises(StoreError, match="not finished"):
        write_report(root)
    assert not (root / "report.html").exists()


def test_a_missing_histogram_is_named(make_race_age: Callable[..., Path]) -> None:
    root = make_race_age()
    (root / "histogram" / "tract.parquet").unlink()
    with pytest.raises(StoreError, match=r"tract\.parquet cannot be read"):
        write_report(root)


def test_shares_spent_on_what_is_exact_are_told(redistricting):
    """A third of the national budget of 2020 measures totals of States, which are exact."""
    told = "32.4 % of the strategy's rho measures answers that are published exactly anyway: total at State"
    text = text_of(write_report(redistricting))
    assert told in text
    assert '[strategy.geolevels] US = "426088/11360483"' in text


def test_a_page_speaks_of_what_the_release_counts(make_race_age):
    schema = replace(load_preset("race-age"), unit=unit_of("household"))
    text = text_of(write_report(make_race_age(schema=schema)))
    assert "households by voting age" in text
    assert "published exactly anyway" not in text
    assert "one household’s record differs" in text
    assert not re.search(r"\b(persons?|people)\b", text, flags=re.IGNORECASE)
