"""A run that measures, in a worker process on another machine.

The noise key and the key of the encrypted counts are its secret. They reach worker processes over the encrypted
channel alone. The counts are in files that the run's own process encrypts when it begins or resumes (`sealed_counts`).
"""

import os
from pathlib import Path
from typing import Final

from tallyveil.budget.allocation import Allocation
from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.confidential.measure import SealedMeasurer
from tallyveil.confidential.sealed_counts import SealedCounts, write_sealed_counts
from tallyveil.files.finished import PRIVATE
from tallyveil.geography.areas import Hierarchies
from tallyveil.noise.key import KEY_BYTES
from tallyveil.noise.source import NoiseSource
from tallyveil.postprocess.estimation import OpenedRun, described, opened_run
from tallyveil.runs.executor import Site
from tallyveil.runs.folder import CLUSTER
from tallyveil.runs.product import Run
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import JsonObject

COUNTS: Final = "counts"
"""Folder of the encrypted counts."""


def measuring_site(run: Run, histograms: tuple[ConfidentialHistogram, ...]) -> Site:
    """How worker processes open a run that measures; writes the encrypted counts.

    Args:
        run: The run, with its public inputs, and what it drew on a lattice, written.
        histograms: True counts of every geolevel. Confidential.
    Raises:
        StoreError: the counts cannot be written.
    Privacy: the secret holds the noise key and a new key of the counts; whoever has it knows the true counts.
    """
    # A fresh key at every start: the nonces follow from the place of the counts, so that no key may serve twice.
    counts_key = os.urandom(KEY_BYTES)
    write_sealed_counts(run.path / PRIVATE / CLUSTER / COUNTS, run.run_id, histograms, counts_key)
    # Worker processes import the function by name; only text and bytes cross the channel, no pickled code.
    opener = f"{open_run.__module__}:{open_run.__name__}"
    description = {**described(run), "run": run.run_id}
    return Site(opener, description, run.secrets.noise_key + counts_key, run.secrets.files_key)


def open_run(description: JsonObject, secret: bytes) -> OpenedRun:
    """Open a run that measures.

    Args:
        description: As `measuring_site` describes it.
        secret: The noise key, then the key of the counts. Confidential.
    Raises:
        StoreError: a public file is missing, or is not what the run wrote.
    """
    # Both keys have KEY_BYTES; `measuring_site` joined them in this order.
    noise_key, counts_key = secret[:KEY_BYTES], secret[KEY_BYTES:]

    def measurer(schema: Schema, hierarchies: Hierarchies, allocation: Allocation) -> SealedMeasurer:
        folder = Path(description["release"]) / PRIVATE / CLUSTER / COUNTS
        counts = SealedCounts(folder, description["run"], counts_key, allocation.spine)
        return SealedMeasurer(counts, schema, allocation, NoiseSource(noise_key))

    return opened_run(description, measurer)
