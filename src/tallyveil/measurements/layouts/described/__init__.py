"""Reads noisy measurements of others, of which a description says where each thing stands (`form.Form`).

Two kinds of tables are read, as Parquet or CSV. Noisy answers have a row for each geounit and query with the list of
its answers ("list"), or a row for each answer with the labels of what it counts ("long"). Constraints have exact
counts and bounds in the same form, with a sign.
"""
