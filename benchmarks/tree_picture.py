"""The picture of docs/estimation.md: errors with values = "tree", divided by those with "own".

python benchmarks/tree_values.py --keys 20 --json plain.json
python benchmarks/tree_values.py --keys 20 --spine optimised --json optimised.json
python benchmarks/tree_picture.py plain.json optimised.json docs/tree-values.svg
"""

import argparse
import json
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

PLACES = {
    "County": "counties",
    "Tract": "tracts",
    "Block_Group": "block groups",
    "Block": "blocks",
    "place": "places",
    "county_subdivision": "county subdivisions",
    "school_district": "school districts",
    "zcta": "postal areas",
    "state_house": "house districts",
    "state_senate": "senate districts",
}
QUERIES = {
    "total": ("total", "o", "#222222"),
    "votingage": ("voting age", "s", "#0072b2"),
    "hispanic*cenrace": ("Hispanic by race", "^", "#009e73"),
    "hhgq": ("quarters by type", "D", "#d55e00"),
    "detailed": ("2,016 cells", "x", "#cc79a7"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("plain", type=Path)
    parser.add_argument("optimised", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    # The same file from the same numbers.
    matplotlib.rcParams.update({"svg.hashsalt": "tree values", "svg.fonttype": "none", "font.size": 8})
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, path in zip(panels, (options.plain, options.optimised), strict=True):
        results = json.loads(path.read_text())
        ratios = {
            (row["place"], row["which"]): row["tree"] for row in results["rows"] if row["kind"] == "query"
        }
        for query, (label, marker, colour) in QUERIES.items():
            ratios_of_places = [ratios[place, query] for place in PLACES]
            axes.errorbar(
                [ratio["ratio"] for ratio in ratios_of_places],
                range(len(ratios_of_places)),
                xerr=[2 * ratio["ratio_se"] for ratio in ratios_of_places],
                fmt=marker,
                color=colour,
                markersize=3.5,
                linewidth=0.7,
                label=label,
            )
        axes.axvline(1.0, color="#888888", linewidth=0.8)
        axes.set_title(f"{results['spine']} spine", fontsize=9)
        axes.set_xlabel("error with the tree / error with own values")
        axes.grid(axis="y", linewidth=0.3)
    panels[0].set_yticks(range(len(PLACES)), PLACES.values())
    panels[0].invert_yaxis()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.savefig(options.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
