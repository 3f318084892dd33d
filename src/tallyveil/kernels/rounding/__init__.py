"""Controlled rounding as a minimum-cost flow, compiled."""
