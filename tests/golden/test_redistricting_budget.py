"""The 2020 redistricting budget, typed here from its published tables and not from the presets."""

from fractions import Fraction

import pytest

from tallyveil.accounting import DiscreteGaussian, rho_of, zcdp_to_epsilon
from tallyveil.budget.presets import load_strategy_preset
from tallyveil.budget.strategy import expected_errors

RHO = Fraction(339, 542) ** -2
DELTA = Fraction(1, 10**10)
QUERIES = (
    "total",
    "cenrace",
    "hispanic",
    "votingage",
    "hhinstlevels",
    "hhgq",
    "hispanic*cenrace",
    "votingage*cenrace",
    "votingage*hispanic",
    "votingage*hispanic*cenrace",
    "detailed",
)
# Shares in the order of QUERIES, over the denominator given first; 0: not measured.
US_RUN = {
    "US": (104, 4097, (0, 52, 26, 26, 26, 26, 130, 130, 26, 442, 3213)),
    "State": (1440, 4097, (3773, 6, 6, 6, 6, 6, 12, 12, 6, 34, 230)),
    "County": (447, 4097, (3126, 10, 10, 10, 10, 10, 28, 28, 10, 101, 754)),
    "Tract": (687, 4102, (1567, 8, 5, 5, 5, 5, 1933, 20, 5, 67, 482)),
    "Block_Group": (1256, 4099, (1705, 3, 3, 3, 3, 3, 1055, 9, 3, 24, 1288)),
    "Block": (165, 4097, (5, 9, 5, 5, 5, 5, 21, 21, 5, 71, 3945)),
}
# The root of the second run is stored as 11/108, 53/513, 56/513 and 25/342: over 1026 in halves, so over 2052.
STATE_ROOTED_RUN = {
    "State": (689, 2052, (0, 209, 209, 209, 209, 209, 212, 212, 209, 224, 150)),
    "County": (695, 4097, (3126, 10, 10, 10, 10, 10, 28, 28, 10, 101, 754)),
    "Tract": (772, 4102, (1467, 13, 7, 7, 7, 7, 1732, 30, 7, 100, 725)),
    "Block_Group": (1778, 4103, (1876, 4, 4, 4, 4, 4, 749, 10, 4, 27, 1417)),
    "Block": (165, 4097, (5, 9, 5, 5, 5, 5, 21, 21, 5, 71, 3945)),
}
# One state of the first run by itself: the same variances, and the budget of the geolevels that are left.
FROM_STATE_RUN = {geolevel: row for geolevel, row in US_RUN.items() if geolevel != "US"}
RUNS = {
    "redistricting-us": US_RUN,
    "redistricting-us-from-state": FROM_STATE_RUN,
    "redistricting-state-rooted": STATE_ROOTED_RUN,
}
SPENT = {
    "redistricting-us": RHO,
    "redistricting-us-from-state": RHO * Fraction(3995, 4099),
    "redistricting-state-rooted": RHO,
}


def variances(run: dict) -> dict[tuple[str, str], Fraction]:
    """sigma^2 = 1 / (rho * geolevel share * query share), by geolevel and query."""
    return {
        (geolevel, query): 1 / (RHO * Fraction(share, 4099) * Fraction(part, whole))
        for geolevel, (share, whole, parts) in run.items()
        for query, part in zip(QUERIES, parts, strict=True)
        if part
    }


@pytest.mark.parametrize("name", RUNS)
def test_every_variance_is_reproduced_exactly(name: str) -> None:
    strategy = load_strategy_preset(name).strategy
    wanted = variances(RUNS[name])
    found = {
        (geolevel, query): strategy.law(geolevel, query).variance
        for geolevel in strategy.geolevels
        for query in strategy.queries(geolevel)
    }
    assert found == wanted
    assert {(row.geolevel, row.query): row.parameter for row in expected_errors(strategy)} == wanted
    moved_twice = tuple(DiscreteGaussian(variance, multiplicity=2) for variance in wanted.values())
    assert strategy.events() == moved_twice


@pytest.mark.parametrize("name", RUNS)
def test_the_total_is_spent_exactly(name: str) -> None:
    strategy = load_strategy_preset(name).strategy
    assert Fraction(293764, 114921) == RHO
    assert strategy.total == rho_of(strategy.event()) == SPENT[name]
    assert sum(share for _, share in strategy.geolevel_shares) == 1
    assert all(sum(share for _, share in shares) == 1 for _, shares in strategy.query_shares)
    assert tuple(strategy.geolevels) == tuple(RUNS[name])


@pytest.mark.parametrize(
    ("query", "geolevel", "printed"),
    [
        ("total", "State", "1.1"),
        ("total", "County", "2.2"),
        ("total", "Tract", "2.5"),
        ("total", "Block_Group", "1.8"),
        ("total", "Block", "89"),
        ("hispanic*cenrace", "Tract", "2.2"),
        ("hispanic*cenrace", "Block_Group", "2.2"),
        ("hispanic*cenrace", "Block", "43.5"),
        ("detailed", "US", "4.4"),
        ("detailed", "State", "4.5"),
        ("detailed", "County", "4.4"),
        ("detailed", "Tract", "4.5"),
        ("detailed", "Block_Group", "2.0"),
        ("detailed", "Block", "3.2"),
    ],
)
def test_the_printed_standard_deviations(query: str, geolevel: str, printed: str) -> None:
    rows = expected_errors(load_strategy_preset("redistricting-us").strategy)
    (row,) = [row for row in rows if (row.geolevel, row.query) == (geolevel, query)]
    digits = len(printed.partition(".")[2])
    assert f"{row.standard_deviation:.{digits}f}" == printed


# What the certificates say of one attribute: the budget of the queries that tell its levels apart.
@pytest.mark.parametrize(
    ("name", "attribute", "epsilon"),
    [
        ("redistricting-us", "hhgq", 7.24),
        ("redistricting-us", "votingage", 7.57),
        ("redistricting-us", "hispanic", 10.04),
        ("redistricting-us", "cenrace", 10.08),
        ("redistricting-state-rooted", "hhgq", 8.69),
        ("redistricting-state-rooted", "votingage", 9.49),
        ("redistricting-state-rooted", "hispanic", 11.65),
        ("redistricting-state-rooted", "cenrace", 11.69),
    ],
)
def test_the_certified_epsilon_of_each_attribute(name: str, attribute: str, epsilon: float) -> None:
    strategy = load_strategy_preset(name).strategy
    telling = {attribute} | ({"hhinstlevels"} if attribute == "hhgq" else set())
    rho = sum(
        strategy.share(geolevel, query)
        for geolevel in strategy.geolevels
        for query in strategy.queries(geolevel)
        if query == "detailed" or telling & set(query.split("*"))
    )
    assert round(zcdp_to_epsilon(rho, DELTA), 2) == epsilon


# What it says of place: the budget of the geolevels that tell two finest geounits of one larger geounit apart.
@pytest.mark.parametrize(
    ("n_geolevels", "epsilon"), [(1, 2.93), (2, 9.38), (3, 11.70), (4, 13.05), (5, 16.89), (6, 17.14)]
)
def test_the_certified_epsilon_of_place(n_geolevels: int, epsilon: float) -> None:
    strategy = load_strategy_preset("redistricting-us").strategy
    rho = strategy.total * sum(share for _, share in strategy.geolevel_shares[-n_geolevels:])
    assert round(zcdp_to_epsilon(rho, DELTA), 2) == epsilon
