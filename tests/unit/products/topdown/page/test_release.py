import hashlib
import html
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.pages import PageParser, require_readable, text_of

from tallyveil.accounting.events import Neighbours, NonPrivateEvent
from tallyveil.accounting.ledger.file import Ledger
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.accounting.renyi import zcdp_to_epsilon
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import StoreError
from tallyveil.products.topdown.page.release import write_report
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import unit_of
from tallyveil.storage.write import file_digest

Edit = Callable[[Path, Callable[[dict[str, Any]], None]], None]


def test_says_what_the_guarantee_is(redistricting: Path) -> None:
    text = text_of(write_report(redistricting))
    by_rho = zcdp_to_epsilon(Fraction(293764, 114921), Fraction(1, 10**10))
    proved = 16.4651553768  # of the manifest
    # The tile: what is proved stands first, what the budget alone would allow beside it.
    tile = re.findall(
        r"Differential privacy ε ≤ ([\d.]+) at δ = 10\^−10, bounded neighbours; from ρ alone would follow ε ≤ ([\d.]+)",
        text,
    )
    assert proved <= Fraction(tile[0][0]) < proved + 0.001
    assert by_rho <= Fraction(tile[0][1]) < by_rho + 0.001
    plain = text.replace("\xa0", " ")
    proof, budget = (
        f"with ε ≤ {tile[0][0]} at δ = 10^−10",
        f"From ρ alone follows only ε ≤ {tile[0][1]} at δ = 10^−10",
    )
    assert 0 < plain.index(proof) < plain.index(budget)
    for statement in (
        "Redistricting counts of Rhode Island",
        "Counts of people by household or type of group quarters, voting age, Hispanic origin and race, for 6 kinds "
        "of areas, from US to Block.",
        "Published people 200,000 in all areas together",
        "one person’s record differs in its place or characteristics, while the number of records stays the same",
        "discrete Gaussian law",
        "ρ = 2.557 (exactly 293764/114921)",
        "100 % of what was declared",
        "all people at State (invariant). The guarantee compares only populations that agree on this statistic",
        "The bounds “group quarters” on household or type of group quarters at Block. They were used as given and cost "
        "no budget.",
        "Whatever is computed from the output alone is as private as the output.",
        "These margins are those of the noisy measurements, before estimation.",
        "no count is negative",
        "microdata hold exactly the records of the finest counts",
    ):
        assert statement in text
    assert "NOT PRIVATE" not in text
    assert "no budget pays for" not in text


def test_begins_in_plain_words(redistricting: Path) -> None:
    """What was done, how sure a count is, and what it means come before every symbol."""
    text = text_of(write_report(redistricting))
    sentences = (
        "A random whole number, called noise, was added to every count that was measured.",
        "They are whole, never negative, and add up from Block to US.",
        "Published exactly, without noise: all people at State.",
        "As measured, the number of people has noise of at most 175 for one Block and 4 for one County, in 95 of 100",
        "This release has no intervals of its published counts yet.",
        "Do not take the count of a single Block for the truth. A small one may truly be zero.",
        "With the whole release at hand, at most 96.8 % of their guesses are right. Without the release, half of them",
    )
    places = [text.index(sentence) for sentence in sentences]
    assert places == sorted(places)
    assert places[-1] < min(text.index(symbol) for symbol in ("ρ", "ε", "δ"))


def test_shows_the_numbers_of_plan_manifest_and_counts(redistricting: Path) -> None:
    text = text_of(write_report(redistricting))
    # Published margins of the production strategy: 1.96 standard deviations of 1.1 and 89 persons.
    assert "all people not measured ± 2 ± 4 ± 5 ± 3 ± 175 " in text
    assert " 65 2.557 " in text  # measurements and cost in the ledger
    assert "State 1 0 200,000 200,000 200,000 657" in text
    assert "Block 3,000 2,888 37 75 75 2,925 0 1.9 × 10^−8" in text
    assert "an only child has its parent's counts" in text
    assert "numpy 2.1.3" in text
    assert file_digest(redistricting / "histogram" / "Block.parquet") in text


def test_shows_every_measurement(redistricting: Path) -> None:
    text = text_of(write_report(redistricting))
    line = r"(US|State|County|Tract|Block Group|Block) [a-z*]+ [\d.]+ % [\d.,]+ [\d.,]+ ± \d+ "
    assert len(re.findall(line, text)) == 65
    # The block total: sigma squared = 1 / (rho * 165/4099 * 5/4097).
    variance = 1 / (Fraction(293764, 114921) * Fraction(165, 4099) * Fraction(5, 4097))
    assert f"Block total 0.0049 % {float(variance):,.0f} 89.2 ± 175 {variance}" in text


def test_everybody_can_read_it(redistricting: Path) -> None:
    parsed = require_readable(write_report(redistricting))
    assert parsed.tags.count("figure") == 3


def test_figures_have_alternative_text_and_captions(redistricting: Path) -> None:
    page = write_report(redistricting)
    described = re.findall(
        r"<svg [^>]*><title id=[^>]*>(.*?)</title><desc id=[^>]*>(.*?)</desc>", page.read_text()
    )
    assert [title for title, _ in described] == [
        "Division of the budget",
        "95 % margin of one measured count, people (logarithmic)",
        "Sizes of geounits",
    ]
    assert described[0][1].startswith("Bars: US 2.54 % of the budget; State 35.1 %")
    assert re.findall(r"<figcaption><strong>(.*?)</strong>", page.read_text()) == [
        "The largest part of the budget, 35.1 %, goes to State, and the largest part of that, 92.1 %, to “all "
        "people”.",
        "The most exact measurement is “all people” at State, with a margin of ± 2; the least exact one is “all "
        "people” at Block, with a margin of ± 175 people.",
        "At Block, half of the 25,181 areas have 2 people or fewer; 10,011 are empty.",
    ]


@pytest.mark.nightly
def test_the_same_release_gives_the_same_bytes(redistricting: Path) -> None:
    first = write_report(redistricting).read_bytes()
    assert write_report(redistricting).read_bytes() == first
    # In another process, with another hash seed.
    command = (
        "import sys, pathlib; from tallyveil.products.topdown.page.release import write_report; "
        # The folder has no geography, as for all tests here (`conftest.py`).
        "from tallyveil.report import release_files; release_files.with_guarantee = lambda _, manifest: manifest; "
        "write_report(pathlib.Path(sys.argv[1]))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", command, str(redistricting)], check=True, env=environment)
    again = (redistricting / "report.html").read_bytes()
    assert hashlib.sha256(again).digest() == hashlib.sha256(first).digest()


def test_names_are_text_and_never_markup(make_race_age: Callable[..., Path], rewrite: Edit) -> None:
    attack = "<title><script>alert(1)<script>\"'><img src=x onerror=alert(1)> $x$ {{ 7 * 7 }}"
    root = make_race_age(name=attack)
    rewrite(root / "manifest.json", lambda manifest: manifest["checks"].append(attack))
    page = write_report(root)
    parsed = PageParser.parse(page)
    assert not set(parsed.tags) & {"script", "img"}
    assert f"{attack}: release report" in html.unescape(page.read_text())
    assert text_of(page).count("{{ 7 * 7 }}") >= 3


def test_odd_names_of_geolevels_and_queries_do_not_break_the_figures(
    make_race_age: Callable[..., Path],
) -> None:
    odd = 'a<b>&"#1 id="x $frac$ -->'
    strategy = Strategy(
        Mechanism.DISCRETE_GAUSSIAN,
        Neighbours.BOUNDED,
        Fraction(1),
        (("state", Fraction(1, 2)), ("block", Fraction(1, 2))),
        (("state", ((odd, Fraction(1)),)), ("block", ((odd, Fraction(1)),))),
    )
    schema = load_preset("race-age")
    schema = replace(schema, recodes=(*schema.recodes, replace(schema.recodes[0], name=odd)))
    page = write_report(make_race_age(schema=schema, strategy=strategy))
    PageParser.parse(page)
    assert html.unescape(page.read_text()).count(odd) >= 4


def test_an_insecure_key_is_impossible_to_overlook(make_race_age: Callable[..., Path]) -> None:
    text = text_of(write_report(make_race_age(protected=False)))
    assert text.index("NOT PRIVATE: Made with an insecure test key") < text.index("Release report")
    assert "The guarantee below does not hold for this release" in text
    assert "Best guess about one person 100 % right, since the key of the noise is not secret" in text
    assert "This would hold if the key of the noise were secret, which it is not." in text
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


def test_says_what_each_secret_and_what_groups_cost(redistricting: Path) -> None:
    text = text_of(write_report(redistricting)).replace("\xa0", " ")
    assert "What each secret of a record costs" in text
    # As `tallyveil account secrets` has it for this budget, rounded up.
    for words in (
        "race 1.009 9.666",
        "place, within one Tract 0.8862 8.989",
        "place, within one US; two people exchange it 1.925 13.959",
        "For 2 people of one Block together ε ≤ 38.369; for 5 people of one Block together ε ≤ 135.031",
        "Since total at State is exact and the bounds group quarters hold, a change of one person's record may need "
        "others to change too; one other is always enough",
    ):
        assert words in text, words
