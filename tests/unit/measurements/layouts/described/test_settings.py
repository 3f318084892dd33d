"""Which product files are of: geolevels, queries and variances decide."""

from fractions import Fraction

import numpy as np
import pytest

from tallyveil.budget.presets import load_strategy_preset
from tallyveil.errors import ConfigError, GeographyError
from tallyveil.measurements.layouts.described.settings import (
    expected_variances,
    find_settings,
    is_close,
    rho_of_variances,
)
from tallyveil.measurements.layouts.described.spine import read_spine

from .conftest import find_files, write_table
from .test_spine import PLAIN, prefixes

STRATEGY = load_strategy_preset("redistricting-units-state-rooted").strategy
KNOWN = {"units": STRATEGY}
ONLY = {"Block": ("4400100010022001",)}
"""The block that is the only child of its block group."""
MERGED = Fraction(281911, 657435) + Fraction(99, 820)


def files_of(root, *, bypassed=False, factor=1.0):
    """A tree of three blocks whose variances are those of production."""
    shares = dict(STRATEGY.geolevel_shares)
    for name, codes in prefixes(PLAIN).items():
        rows = []
        for code in codes:
            share = shares[name]
            if bypassed:
                # The State, the county and the tract each have one child, and so does the second block group.
                share = {
                    "State": shares["State"] + shares["County"] + shares["Tract"],
                    "County": 0,
                    "Tract": 0,
                }.get(name, share)
                if code == "440010001002":
                    share = shares["Block_Group"] + shares["Block"]
                if code in ONLY["Block"]:
                    share = 0
            if share:
                variance = float(1 / (STRATEGY.total * share)) * factor
                row = {"geocode": code, "query_name": "detailed_dpq", "value": [1, 2], "variance": variance}
                rows.append(row)
        write_table(root, name, "DPQuery", rows)
        listed = [{"geocode": code, "query_name": "total_con", "value": [3]} for code in codes]
        write_table(root, name, "Constraint", listed)
    return find_files(root)


def test_the_settings_of_production(tmp_path):
    files = files_of(tmp_path)
    spine = read_spine(files)
    found = find_settings(files, spine, {"other": load_strategy_preset("redistricting-us").strategy, **KNOWN})
    assert (found.name, found.shares) == ("units", None)
    assert found.queries["Tract"] == {"detailed_dpq": "detailed"}
    assert rho_of_variances(spine, found) == pytest.approx(float(STRATEGY.total), rel=1e-12)


def test_bypassed_geounits_gave_their_share_to_their_parents(tmp_path):
    files = files_of(tmp_path, bypassed=True)
    spine = read_spine(files)
    found = find_settings(files, spine, KNOWN)
    assert found.shares is not None
    assert found.shares.share(3, 1) == dict(STRATEGY.geolevel_shares)["Block_Group"] + Fraction(99, 820)
    assert found.shares.measured(4).tolist() == [True, True, False]
    assert rho_of_variances(spine, found) == pytest.approx(float(STRATEGY.total), rel=1e-12)
    law, parameter = expected_variances(found.allocation, "Block", "detailed")
    assert np.isinf(law).tolist() == np.isinf(parameter).tolist() == [False, False, True]


def test_variances_may_be_rounded_and_not_more(tmp_path):
    files = files_of(tmp_path, factor=1 + 5e-7)
    find_settings(files, read_spine(files), KNOWN)
    files = files_of(tmp_path, factor=1 + 1e-5)
    spine = read_spine(files)
    with pytest.raises(ConfigError, match=r"has the variance .*; wanted") as caught:
        find_settings(files, spine, KNOWN)
    assert caught.value.code == "layout-settings"
    assert is_close(np.array([1.0, 1.0, 5.0]), np.array([1.0, np.inf, 0.0])).tolist() == [True, False, False]


def test_files_of_no_product(tmp_path):
    files = files_of(tmp_path)
    spine = read_spine(files)
    with pytest.raises(ConfigError, match="Known products have: us: US, State"):
        find_settings(files, spine, {"us": load_strategy_preset("redistricting-us").strategy})
    persons = {"persons": load_strategy_preset("redistricting-state-rooted").strategy}
    with pytest.raises(ConfigError, match="persons: State has no noisy answers of cenrace"):
        find_settings(files, spine, persons)
    row = {"geocode": "44", "query_name": "sex_dpq", "value": [1], "variance": 5.0}
    write_table(tmp_path, "State", "DPQuery", [row])
    files = find_files(tmp_path)
    with pytest.raises(ConfigError, match="units: State has noisy answers of 'sex_dpq'"):
        find_settings(files, read_spine(files), KNOWN)


def test_a_geounit_with_siblings_must_be_measured(tmp_path):
    files_of(tmp_path)
    rows = [
        {
            "geocode": code,
            "query_name": "detailed_dpq",
            "value": [1, 2],
            "variance": float(1 / (STRATEGY.total * Fraction(99, 820))),
        }
        for code in PLAIN[1:]
    ]
    write_table(tmp_path, "Block", "DPQuery", rows)
    files = find_files(tmp_path)
    with pytest.raises(GeographyError, match="contradict the rule of bypassing") as caught:
        find_settings(files, read_spine(files), KNOWN)
    assert caught.value.code == "layout-geounits"
