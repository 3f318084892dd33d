"""Write the schema presets of the Demographic and Housing Characteristics (DHC).

Run `python tools/dhc_presets.py` from the repository's root after a change of a rule. A test checks that the files in
`src/tallyveil/schema/presets` are what this script writes.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from tools.dhc_persons import COMMENT as PERSONS_COMMENT  # noqa: E402
from tools.dhc_persons import persons_preset  # noqa: E402
from tools.dhc_unit_sizes import COMMENT as SIZES_COMMENT  # noqa: E402
from tools.dhc_unit_sizes import sizes_preset  # noqa: E402
from tools.dhc_units import COMMENT as UNITS_COMMENT  # noqa: E402
from tools.dhc_units import units_preset  # noqa: E402
from tools.preset_text import preset_text  # noqa: E402

FOLDER = ROOT / "src" / "tallyveil" / "schema" / "presets"


def preset_texts() -> dict[str, str]:
    """The text of each file, by its name."""
    return {
        "dhc-persons.toml": preset_text(PERSONS_COMMENT, persons_preset()),
        "dhc-units.toml": preset_text(UNITS_COMMENT, units_preset()),
        "dhc-units-sizes.toml": preset_text(SIZES_COMMENT, sizes_preset()),
    }


if __name__ == "__main__":
    for name, text in preset_texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
