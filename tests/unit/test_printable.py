"""What is shown holds nothing that a terminal, a browser or a reader of text obeys."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.printable import described, short_name, shown, some_names, tabulated


@given(st.text(st.characters(exclude_categories=[])))
def test_nothing_that_is_obeyed_is_left(text):
    plain = shown(text)
    assert all(c in "\n\t" or unicodedata.category(c)[0] != "C" for c in plain)
    assert not set(plain) & set("\u2028\u2029")
    plain.encode("utf-8")  # halves of characters could not be written
    assert shown(plain) == plain


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs", "M"])))
def test_every_other_text_stays(text):
    assert shown(text) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_stays_the_json_it_was(text):
    assert json.loads(shown(json.dumps({text: text}, ensure_ascii=False))) == {text: text}


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b]0;title\x07", r"\u001b]0;title\u0007"),
        ("a\u202eb", r"a\u202eb"),
        ("\x9b31m", r"\u009b31m"),
        ("over\rwritten", r"over\u000dwritten"),
        ("[/x] [bold]", "[/x] [bold]"),
        ("caf\udce9", r"caf\udce9"),
        ("Åsele–Ñuñoa 東京", "Åsele–Ñuñoa 東京"),
    ],
)
def test_examples(text, plain):
    assert shown(text) == plain


HOSTILE = "<b onclick='x'>&\u202e\""


def test_what_notebooks_show_is_escaped_everywhere():
    name = r"&lt;b onclick=&#x27;x&#x27;&gt;&amp;\u202e&quot;"
    page = described(HOSTILE, [(HOSTILE, HOSTILE)], HOSTILE)
    table = tabulated(HOSTILE, [HOSTILE, HOSTILE], [(HOSTILE, HOSTILE)], HOSTILE)
    for text, times in ((page, 4), (table, 6)):
        assert text.count(name) == times
        assert "<b" not in text
        assert "\u202e" not in text


def test_a_table_has_names_to_the_left_and_numbers_to_the_right():
    table = tabulated("Noise", ["geolevel", "query", "margin"], [("State", "total", "± 3")], n_names=2)
    assert [cell for cell in ("left", "right") if f"<th scope='col' style='text-align:{cell}" in table] == [
        "left",
        "right",
    ]
    assert "<td style='text-align:left" in table
    assert "text-align:right;vertical-align:top;padding:0.1em 1em 0.1em 0'>± 3</td>" in table
    assert "<p" not in table


def test_long_names_and_many_names_are_cut():
    assert short_name("x" * 80) == "x" * 80
    assert short_name("x" * 100_000) == "x" * 77 + "..."
    assert some_names(["a", "y" * 200_000]) == f"a, {'y' * 77}..."
    assert some_names([str(n) for n in range(1_041)]).endswith("38, 39 and 1,001 more")
