from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallyveil.budget.presets import load_strategy_preset, strategy_preset_names
from tallyveil.errors import StoreError
from tallyveil.report.release_files import read_release_files
from tallyveil.storage.json_files import digest_of


def test_the_strategy_is_that_of_the_plan(redistricting: Path) -> None:
    files = read_release_files(redistricting)
    assert "redistricting-us" in strategy_preset_names()
    assert files.strategy == load_strategy_preset("redistricting-us").strategy
    assert files.geolevels == ("US", "State", "County", "Tract", "Block_Group", "Block")
    # US has no total; the order is that of the geolevels that have it.
    assert files.queries[:2] == ("total", "cenrace")
    assert len(files.queries) == 11
    assert files.spent == files.strategy.total
    assert files.is_protected


def test_shares_that_do_not_sum_to_one_are_refused(
    make_race_age: Callable[..., Path], rewrite: Callable[[Path, Callable[[dict[str, Any]], None]], None]
) -> None:
    root = make_race_age()

    def raise_share(plan: dict[str, Any]) -> None:
        plan["query_shares"]["block"]["total"] = "1/3"

    rewrite(root / "plan.json", raise_share)

    def in_manifest(manifest: dict[str, Any]) -> None:
        raise_share(manifest["body"]["plan"])
        manifest["plan_digest"] = digest_of(manifest["body"]["plan"]).hex()

    rewrite(root / "manifest.json", in_manifest)
    with pytest.raises(StoreError, match="query shares of geolevel block sum to"):
        read_release_files(root)
