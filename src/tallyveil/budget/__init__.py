"""Divides a privacy-loss budget in exact fractions, and predicts the error that each division leads to."""

from tallyveil.budget.presets import (
    CensusProduct,
    StrategyPreset,
    load_product,
    load_strategy_preset,
    product_names,
    strategy_preset_names,
)
from tallyveil.budget.strategy import ExpectedError, Mechanism, Strategy, expected_errors, parse_fraction

__all__ = [
    "CensusProduct",
    "ExpectedError",
    "Mechanism",
    "Strategy",
    "StrategyPreset",
    "expected_errors",
    "load_product",
    "load_strategy_preset",
    "parse_fraction",
    "product_names",
    "strategy_preset_names",
]
