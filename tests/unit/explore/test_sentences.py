"""What a page says about one count."""

from tests.unit.explore.nodes import node_needed
from tests.unit.explore.workbench.in_node import ask_node

pytestmark = node_needed


def said(**answer: float) -> str:
    return " ".join(ask_node("sentences", answer=answer))


def test_an_exact_count_is_said_once_and_nothing_of_noise():
    text = said(published=38715, estimate=38715, error=0, low=38715, high=38715)
    assert text.count("38,715") == 1
    assert "This count is exact" in text
    assert "interval" not in text


def test_a_noisy_count_has_an_estimate_and_an_interval():
    text = said(published=12, estimate=10.5, error=2.25, low=6, high=15)
    assert "The unbiased estimate from the noisy measurements is 10.5" in text
    assert "interval of the count before noise is 6 to 15" in text
