"""Divides a privacy-loss budget in exact fractions, and predicts the error that each division leads to."""

from tallyveil.budget.expected import ExpectedError, expected_errors
from tallyveil.budget.fractions import parse_fraction
from tallyveil.budget.presets import StrategyPreset, load_strategy_preset, strategy_preset_names
from tallyveil.budget.products import CensusProduct, load_product, product_names
from tallyveil.budget.strategy import Mechanism, Strategy

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
