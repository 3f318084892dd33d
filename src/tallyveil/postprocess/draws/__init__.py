"""Draws of whole tables of a finished release, given its noisy measurements and a model of its blocks."""
