"""Draws of whole tables from what the noisy measurements of a spine and a model of its finest geounits say together."""
