"""What two releases cost together, as the page of a publication says it."""

from tallyveil.products.topdown.pl94.publication import cost_lines


def test_what_is_not_exact_is_said_to_people():
    content = {
        "releases": [{"counts": "people", "privacy": {"statement": "epsilon <= 2"}}],
        "together": {
            "neighbours": "bounded",
            "rho": "1/3",
            "delta": "1/100",
            "epsilon": 2.5,
            "not_exact": "because",
            "statement": "Both.",
        },
    }
    alone, together = cost_lines(content)
    assert alone == "Release of people: epsilon <= 2."
    assert "Both. epsilon <= 2.5 at delta = 0.01, bounded neighbours" in together
    assert together.endswith("This epsilon is an upper bound, and a smaller one may hold: because.")
