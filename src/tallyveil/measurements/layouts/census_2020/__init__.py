"""The layout in which the US Census Bureau published the noisy measurements of the 2020 redistricting data.

    <geolevel>.parquet/DPQuery/State=<State>/*.parquet      noisy answers: a row for each geounit and query
    <geolevel>.parquet/Constraint/State=<State>/*.parquet   exact counts and bounds: a row for each geounit and name

Columns: `geocode`, `query_name`, one column for each attribute, `query_shape`, `value` (a list of whole numbers),
`variance`, `plb`; and `sign` (`=`, `>=` or `<=`) in `Constraint`. Geocodes of a geolevel have one length, and each
begins with the geocode of its parent. A geocode of a block ends with the 16 digits of its tabulation block: State,
county, tract, block group, block. A geounit that was bypassed has no row in `DPQuery`, but has rows in `Constraint`.
"""
