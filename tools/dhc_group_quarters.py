"""The types of group quarters of the 2020 Census."""

from collections.abc import Mapping

GROUP_QUARTERS = (
    "federal_detention_centers",  # 101
    "federal_prisons",
    "state_prisons",
    "local_jails",
    "correctional_residential_facilities",
    "military_disciplinary_barracks",  # 106
    "juvenile_group_homes",  # 201
    "juvenile_treatment_centers",
    "juvenile_correctional_facilities",
    "nursing_facilities",  # 301
    "psychiatric_hospitals",  # 401
    "hospitals_without_usual_home_elsewhere",
    "inpatient_hospices",
    "military_treatment_facilities",
    "residential_schools",  # 405
    "college_housing",  # 501
    "military_quarters",  # 601
    "military_ships",
    "shelters",  # 701
    "adult_group_homes",  # 801
    "adult_treatment_centers",
    "maritime_vessels",  # 900
    "workers_quarters",  # 901
    "other_noninstitutional_quarters",  # 997
)
"""Labels in the order of their codes."""

MAJOR_TYPES: Mapping[str, range] = {
    "adult_correctional": range(6),
    "juvenile": range(6, 9),
    "nursing": range(9, 10),
    "other_institutional": range(10, 15),
    "college": range(15, 16),
    "military": range(16, 18),
    "other_noninstitutional": range(18, 24),
}
"""The major types of the redistricting data, as positions among `GROUP_QUARTERS`."""
