"""Measurements and releases that come from elsewhere or go elsewhere."""
