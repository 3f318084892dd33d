"""Parsing lines of numbers: the kernel against its twin, and both against the patterns of the published columns."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.text_records import parse_rows_reference

from tallyveil.kernels.records import parse_rows
from tallyveil.products.safetab.public.files import PERSONS
from tallyveil.products.safetab.public.households import HOUSEHOLDS

RULES = np.array([[1, 3, 0, 115, 0], [4, 4, 1000, 9999, 1], [0, 0, 0, 0, 2]], np.int64)


def parsed(function, text, rules=RULES):
    data = np.frombuffer(text.encode("latin-1"), np.uint8)
    values, broken = np.full((len(data) + 1, len(rules)), -7, np.int32), np.zeros(len(rules), bool)
    n = function(data, rules, values, broken)
    return n, values[: max(n, 0)].tolist() if n >= 0 else None, broken.tolist() if n >= 0 else None


@pytest.mark.parametrize("function", [parse_rows, parse_rows_reference])
@pytest.mark.parametrize(
    ("text", "values", "broken"),
    [
        ("7|1234|True\n", [[7, 1234, 1]], [False] * 3),
        ("007|Null|False\r\n\n\r\n115|9999|True\n", [[7, 0, 0], [115, 9999, 1]], [False] * 3),
        ("116|0999|true\n", [[0, 0, 0]], [True] * 3),
        ("|null|1\n5|Null|True\n", [[0, 0, 0], [5, 0, 1]], [True] * 3),
        ("0001|12345|\n", [[0, 0, 0]], [True] * 3),
        ("\xe9|1234|True\n", [[0, 1234, 1]], [True, False, False]),
        ("5|1234|True\r|\n", None, None),
        ("5|1234\n", None, None),
        ("5|1234|True|\n", None, None),
        ("5|1234|True\n5|1\n", None, None),
    ],
)
def test_lines_by_hand(function, text, values, broken):
    assert parsed(function, text) == (-1 if values is None else len(values), values, broken)


@settings(max_examples=300)
@given(st.text(st.sampled_from("01259|\n\r-. NulTrefas\xff"), max_size=60))
def test_any_text_is_the_same_to_both(text):
    for prefix in ("", "5|1234|True\n"):
        whole = prefix + text + "\n"
        assert parsed(parse_rows, whole) == parsed(parse_rows_reference, whole)


@settings(max_examples=400)
@given(st.data())
def test_a_column_of_records_has_one_rule_in_two_forms(data):
    """The pattern, which is shown and searched for, and the numbers that the kernel goes by."""
    rule = data.draw(st.sampled_from([*PERSONS.rules, *HOUSEHOLDS.rules]))
    near = st.from_regex(rule.pattern.replace("$", r"\Z"))
    value = data.draw(
        near | st.text("0159", max_size=7) | st.sampled_from(["Null", "True", "False", "Nul", "-1"])
    )
    number = rule.number
    rules = np.array([[0, 9, 0, 9, 0], [*(getattr(number, name) for name in number.__slots__)]], np.int64)
    for function in (parse_rows, parse_rows_reference):
        _, values, broken = parsed(function, f"1|{value}\n", rules)
        assert broken[1] == (re.search(rule.pattern, value) is None)
        if not broken[1]:
            assert values[0][1] == int({"Null": "0", "False": "0", "True": "1"}.get(value, value))
