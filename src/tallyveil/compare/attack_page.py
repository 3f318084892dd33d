"""The page of an attack: what an outsider claims and, with the true records, how often he is right."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tallyveil.accounting.numbers import at_most
from tallyveil.arrays import Bools
from tallyveil.compare.claims import ATTRIBUTE, HIDDEN, RECORD, banded
from tallyveil.compare.columns import ABSENT
from tallyveil.compare.page import finding_texts
from tallyveil.compare.results import Attacked
from tallyveil.report.page import SummaryPoint, write_page
from tallyveil.report.wording import name_title, percent
from tallyveil.version import VERSION

PAGE: Final = "attack.html"

SHOWN: Final = 20
"""Claims on the page; all of them are in the file of claims."""

TITLES: Final = {
    ATTRIBUTE: "Attributes of people who are alone of a kind in a geounit",
    RECORD: "Records that every file has that fits the tables",
    HIDDEN: "Hidden counts that follow from shown ones",
}


def write_attack_page(out: Path, attacked: Attacked) -> Path:
    """Write the page.

    Raises:
        StoreError: the file cannot be written.
    Privacy: none where the claims were judged by records; the page says so then.
    """
    judged = attacked.right is not None
    certificate, summary = attacked.certificate, summary_of(attacked)
    return write_page(
        out / PAGE,
        "attack.html.j2",
        {
            "name": attacked.plan.name,
            "judged": judged,
            "sensitive": name_title(attacked.file.attacks.sensitive),
            "points": _points(attacked),
            "bound": None
            if certificate is None or certificate.advantage is None or certificate.power is None
            else {
                "epsilon": certificate.epsilon,
                "advantage": at_most(certificate.advantage, places=3),
                "power": at_most(certificate.power, places=3),
                "invariants": list(certificate.invariants),
            },
            "unbounded": "None is known." if attacked.file.method is None else attacked.file.method.unbounded,
            "kinds": [rows for kind in TITLES if (rows := _kind(kind, attacked, summary))],
            "findings": [finding_texts(item) for item in attacked.findings],
            "power": [
                (name, *(ABSENT if value is None else f"{value:.2f}" for value in values))
                for name, values in attacked.power.items()
                if name not in attacked.refused
            ],
            "control": attacked.control,
            "refused": list(attacked.refused.items()),
            "notes": list(attacked.notes),
            "key": attacked.file.key,
            "tables": [query.name for query in attacked.shared.queries],
            "areas": [(name_title(areas.name), f"{areas.n_areas:,}") for areas in attacked.shared.areas],
            "warning": attacked.warning,
            "marks": attacked.marks.lines(),
            "is_protected": attacked.marks.protected,
            "version": VERSION,
        },
        module=__name__,
    )


def summary_of(attacked: Attacked) -> list[dict[str, Any]]:
    """Numbers of claims by kind and by how probable he takes them to be; with the truth, how many are right."""
    rows = []
    for kind in TITLES:
        mask = (attacked.claims.table["claim"] == kind).to_numpy()
        if not mask.any():
            continue
        for band, inside in banded(attacked.claims.table):
            chosen = mask & inside
            if chosen.any():
                probability = attacked.claims.table["probability"].to_numpy()[chosen]
                surprising = attacked.claims.table["surprising"].to_numpy()
                rows.append(
                    {
                        "claim": kind,
                        "probability": band,
                        "claims": int(chosen.sum()),
                        "expected": float(probability.mean()),
                        "there": _share(attacked.there, chosen),
                        "right": _share(attacked.right, chosen),
                        "surprising": int((chosen & surprising).sum()),
                        "surprising_right": _share(attacked.right, chosen & surprising),
                    }
                )
    return rows


def _share(right: Bools | None, chosen: Bools) -> float | None:
    return None if right is None or not chosen.any() else float(right[chosen].mean())


def _points(attacked: Attacked) -> tuple[SummaryPoint, ...]:
    table = attacked.claims.table
    counted = [
        f"{int((table['claim'] == kind).sum()):,} of {title[0].lower()}{title[1:]}"
        for kind, title in TITLES.items()
        if (table["claim"] == kind).any()
    ]
    what = (
        f"{table.height:,} claims: {'; '.join(counted)}."
        if counted
        else "No claims follow from what was published."
    )
    points = [
        SummaryPoint(
            "What this page is",
            "What somebody would claim who has the published numbers and none of the records"
            + (", and how often he is right." if attacked.right is not None else "."),
        ),
        SummaryPoint("What he claims", what),
    ]
    if attacked.right is not None and table.height:
        surprising = table["surprising"].to_numpy()
        share = _share(attacked.right, surprising)
        points.append(
            SummaryPoint(
                "How often he is right",
                f"{percent(float(np.mean(attacked.right)))} of all claims"
                + (
                    ""
                    if share is None
                    else f", and {percent(share)} of the {int(surprising.sum()):,} that somebody without the tables of "
                    "small areas would not make."
                ),
            )
        )
    points.append(
        SummaryPoint(
            "What not to conclude",
            "Few or wrong claims prove nothing: a better attacker may claim more. Right claims are no breach of a "
            "proved bound, which speaks of one record and not of what is true of many people.",
        )
    )
    return tuple(points)


def _kind(kind: str, attacked: Attacked, summary: list[dict[str, Any]]) -> dict[str, Any] | None:
    rows = [row for row in summary if row["claim"] == kind]
    if not rows:
        return None
    judged = attacked.right is not None
    table = attacked.claims.table
    if judged:
        table = table.with_columns(pl.Series("right", attacked.right, dtype=pl.Boolean))
    shown = table.filter((pl.col("claim") == kind) & pl.col("surprising")).head(SHOWN)
    return {
        "title": TITLES[kind],
        "conditional": kind == ATTRIBUTE,
        "bands": [
            {
                **row,
                "claims": f"{row['claims']:,}",
                "expected": percent(row["expected"]),
                "there": ABSENT if row["there"] is None else percent(row["there"]),
                "right": ABSENT if row["right"] is None else percent(row["right"]),
                "surprising": f"{row['surprising']:,}",
                "surprising_right": ABSENT
                if row["surprising_right"] is None
                else percent(row["surprising_right"]),
            }
            for row in rows
        ],
        "claims": [
            {**row, "probability": f"{row['probability']:.2f}", "right": "yes" if row.get("right") else "no"}
            for row in shown.iter_rows(named=True)
        ],
        "shown": shown.height,
    }
