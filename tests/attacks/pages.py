"""The tables and the picture of docs/attacks.md, from the results."""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

from tests.attacks.statistics import Rate, over_releases

from tallyveil.accounting.numbers import at_most

Row = dict[str, Any]


def tables_of_page(results: dict[str, Any]) -> dict[str, str]:
    """The tables in Markdown, by name."""
    files, districts, states = (results[name]["rows"] for name in ("files", "districts", "states"))
    covered = results["districts"]["covered"]
    return {
        "budgets": _table(
            ["budget", "people: rho", "epsilon", "by the published conversion", "redistricting: rho", "epsilon",
             "by the published conversion"],
            [
                [first["name"], *_budget(first), *_budget(second)]
                for first, second in zip(files, districts, strict=True)
                if "rho" in first
            ],
        ),
        "records": _table(
            ["budget", "from the tables", "published microdata", "from the noisy answers", "certain",
             "of these, true", "blocks solved"],
            [
                ["no data, drawn", "", "", *_cells(files[0], "drawn"), "", "", ""],
                *(
                    [
                        row["name"],
                        *_cells(row, "tables", "microdata", "noisy", "certain", "certain and true", "solved"),
                    ]
                    for row in files
                ),
            ],
        ),
        "names": _table(
            ["budget", "confirmed, in the data", "confirmed, held out", "difference", "right, of those matched"],
            [
                [row["name"], *_cells(row, *(f"tables {name}" for name in
                                             ("confirmed in", "confirmed out", "excess", "precision in")))]
                for row in files
                if "tables excess" in row["rates"]
            ],
        ),
        "unknown": _table(
            ["budget", "area", "power at 1 % false alarms"],
            [[row["name"], _number(row, "membership area"), *_cells(row, "membership power")] for row in files[1:]],
        ),
        "districts": _table(
            ["budget", "total exact", "total within 1", "mean error", "total exact, at most 5 people",
             "race and origin exact"],
            [
                [row["name"], *_cells(row, "total exact", "within 1"), _number(row, "error", 1),
                 *_cells(row, "household exact", "hispanic*cenrace exact")]
                for row in districts
            ],
        ),
        "covered": _table(
            ["", "in the interval", "within half a person", "mean standard error"],
            [
                [
                    "the difference (one block)",
                    *(_mean(covered[f"difference {name}"]) for name in ("covered", "exact")),
                    f"{fmean(covered['difference error']):.1f}",
                ],
                [
                    "the first district (30 blocks)",
                    _mean(covered["district covered"]),
                    "",
                    f"{fmean(covered['district error']):.1f}",
                ],
            ],
        ),
        "movers": _table(
            ["budget", "area", "power at 5 % false alarms", "difference is exactly 1"],
            [[row["name"], _number(row, "area"), *_cells(row, "power", "exact")] for row in districts[1:]],
        ),
        "states": _table(
            ["budget", "false alarms", "power, noisy answers", "power, published tables", "most that is possible",
             "advantage, noisy answers", "published tables", "most that is possible"],
            [_state(row) for row in states],
        ),
    }  # fmt: skip


def draw(results: dict[str, Any], path: Path) -> None:
    """Success by budget: what the attacks add to what an attacker finds without the data."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4))
    axes = figure.subplots(1, 2)
    _draw_files(axes[0], results["files"]["rows"])
    _draw_states(axes[1], results["states"]["rows"])
    for each in axes:
        each.set_xscale("log")
        each.set_ylim(-0.02, 1.02)
        each.set_xlabel("rho")
        each.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    with rc_context({"svg.hashsalt": "attacks"}):  # the same names of parts every time
        FigureCanvasSVG(figure).print_svg(path, metadata={"Date": None})


def _draw_files(axes: Any, rows: list[Row]) -> None:
    blind = rows[0]["rates"]["noisy"][0]
    lines: dict[str, Callable[[Row], Rate]] = {
        "records in the published microdata": lambda row: _rate(row, "microdata"),
        "names confirmed, in the data": lambda row: _rate(row, "tables confirmed in"),
        "names confirmed, held out": lambda row: _rate(row, "tables confirmed out"),
    }
    spent = [row for row in rows if "rho" in row]
    for label, of in lines.items():
        _draw_line(axes, spent, [of(row) for row in spent], label)
    axes.axhline(blind, color="grey", linestyle=":", label="records, without data on blocks")
    axes.set_title("Reconstruction and names")
    axes.legend(fontsize=7, frameon=False)


def _draw_states(axes: Any, rows: list[Row]) -> None:
    spent = [row for row in rows if "rho" in row]
    for source, label in (
        ("measurements", "from the noisy answers"),
        ("tables", "from the published tables"),
    ):
        _draw_line(axes, spent, [Rate(*row[source]["advantage"]) for row in spent], label)
    rhos = [_float(row["rho"]) for row in spent]
    axes.plot(
        rhos, [row["most advantage"] for row in spent], color="black", linestyle="--", label="certified bound"
    )
    axes.set_title("Advantage of who knows all others")
    axes.legend(fontsize=7, frameon=False)


def _draw_line(axes: Any, rows: list[Row], rates: list[Rate], label: str) -> None:
    values = [one.value for one in rates]
    ends = [[one.value - one.lower for one in rates], [one.upper - one.value for one in rates]]
    axes.errorbar(
        [_float(row["rho"]) for row in rows],
        values,
        yerr=ends,
        marker="o",
        markersize=3,
        capsize=2,
        label=label,
    )


def _state(row: Row) -> list[str]:
    if "measurements" not in row:
        told = row["tables"]
        return [row["name"], _percent(Rate(*told["false alarms"])), "", _percent(Rate(*told["power"])), "100 %", "",
                f"{told['advantage'][0]:.3f}", "1"]  # fmt: skip
    first, second = row["measurements"], row["tables"]
    return [
        row["name"],
        _percent(Rate(*first["false alarms"])),
        _percent(Rate(*first["power"])),
        _percent(Rate(*second["power"])),
        f"{at_most(100 * row['most power'], places=1)} %",
        _with_ends(Rate(*first["advantage"]), 3),
        _with_ends(Rate(*second["advantage"]), 3),
        at_most(row["most advantage"], places=4),
    ]


def _budget(row: Row) -> list[str]:
    return [
        f"{_float(row['rho']):.3f}",
        at_most(row["epsilon"], places=2),
        at_most(row["epsilon of rho"], places=2),
    ]


def _rate(row: Row, name: str) -> Rate:
    return over_releases(row["rates"][name])


def _cells(row: Row, *names: str) -> list[str]:
    """Rates in per cent; empty where a row has none."""
    return [_percent(_rate(row, name)) if name in row["rates"] else "" for name in names]


def _mean(rates: list[float]) -> str:
    """Mean rate of releases with equally many trials."""
    return f"{100 * fmean(rates):.1f} %"


def _number(row: Row, name: str, digits: int = 3) -> str:
    return _with_ends(_rate(row, name), digits) if name in row["rates"] else ""


def _percent(rate: Rate) -> str:
    if rate.lower == rate.upper:
        return f"{100 * rate.value:.1f} %"
    return f"{100 * rate.value:.1f} % ({100 * rate.lower:.1f} to {100 * rate.upper:.1f})"


def _with_ends(rate: Rate, digits: int) -> str:
    if rate.lower == rate.upper:
        return f"{rate.value:.{digits}f}"
    return f"{rate.value:.{digits}f} ({rate.lower:.{digits}f} to {rate.upper:.{digits}f})"


def _float(text: str) -> float:
    from fractions import Fraction

    return float(Fraction(text))


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
