"""The ledger in a run folder: begun, continued, and held to the one spend of the run."""

from collections.abc import Sequence
from pathlib import Path

from tallyveil.accounting.events import TEST_KEY
from tallyveil.accounting.ledger.file import Ledger, read_ledger
from tallyveil.accounting.ledger.lines import LedgerEntry, spent
from tallyveil.accounting.numbers import exact_text
from tallyveil.errors import StoreError, TallyveilError
from tallyveil.files.finished import LEDGER
from tallyveil.runs.earlier import Earlier
from tallyveil.runs.key_file import RunSecrets
from tallyveil.runs.product import Job
from tallyveil.storage.write import store_error, write_text


def ledger_entries(out: Path, *, draws: bool) -> tuple[LedgerEntry, ...]:
    """Entries of the ledger; none where it is not there, or was only being begun.

    Args:
        out: Run folder.
        draws: Whether the run draws noise of its own; for the words of an error.
    Raises:
        StoreError: the ledger is no plain file, cannot be read, or is damaged.
    """
    path = out / LEDGER
    # A link could lead to the ledger of another release, and would pass for this one.
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise _bad_ledger(out, "it is no plain file", draws=draws)
    try:
        # Without one complete line the ledger was only being begun, which happens before any draw.
        if not path.exists() or b"\n" not in path.read_bytes():
            return ()
    except OSError as error:
        raise store_error(path, error) from error
    return read_ledger(path)[1]


def enter_spend(path: Path, job: Job, secrets: RunSecrets) -> tuple[LedgerEntry, ...]:
    """Enter the job's event, unless the ledger shows it already. Returns all entries.

    Privacy: this is the spend. It is on disk before the function returns, and so before the first draw of noise.
    """
    with Ledger(path, job.declaration, secrets.run_id) as ledger:
        if not secrets.protected:
            # A test key protects nobody, so the run is entered as declassified; a second entry of one token changes
            # nothing.
            ledger.declassify(
                TEST_KEY,
                description="run with an insecure test key",
                token=f"{secrets.run_id} test key",
            )
        # The ledger enters a token once: a resumed run finds its own spend and does not add another.
        ledger.spend(job.event, description=job.description, token=f"{secrets.run_id} {job.token}")
        return ledger.entries


def copy_ledger(out: Path, earlier: Earlier) -> tuple[LedgerEntry, ...]:
    """Begin the ledger with the lines of the run that has spent; they are there already where work goes on.

    Raises:
        StoreError: a ledger is there, and holds other lines.
    """
    if not ledger_entries(out, draws=False):
        write_text(out / LEDGER, earlier.ledger.decode())
    # Byte for byte: a copy that differs anywhere could claim another spend than was made.
    elif (out / LEDGER).read_bytes() != earlier.ledger:
        raise _bad_ledger(
            out, "it does not hold the lines of the run that drew the measurements", draws=False
        )
    return ledger_entries(out, draws=False)


def require_one_spend(out: Path, entries: Sequence[LedgerEntry], job: Job, run: str) -> None:
    """Refuse a ledger that shows anything but the one spend of this run, or of the run whose files it works on.

    Args:
        out: Run folder.
        entries: Entries of its ledger.
        job: What the run does.
        run: Identifier of the run.
    Raises:
        StoreError: the ledger shows another run, no spend, several, or another one.
    """
    draws = job.earlier is None
    run = run if job.earlier is None else job.earlier.run
    others = sorted({entry.run for entry in entries if entry.run != run})
    # Another run's lines mean that somebody has moved a ledger here; its sum would be that of two releases.
    if others:
        raise _bad_ledger(out, f"it has lines of another run ({', '.join(others)!a:.60})", draws=draws)
    spends = [entry for entry in entries if entry.kind == "spend"]
    tokens = [entry.token for entry in spends]
    # One spend and its token: none was lost, and none was added.
    if tokens != [f"{run} {job.token}"]:
        raise _bad_ledger(
            out, "it does not show the spend of the run whose files are in the same folder", draws=draws
        )
    # The same token with another event: the plan was changed, or the ledger.
    if spends[0].event != job.event:
        raise _bad_ledger(out, "it shows another spend than this plan's", draws=draws)


def spent_in_words(out: Path) -> str:
    """What the ledger of a folder shows, as a sentence."""
    try:
        declaration, entries = read_ledger(out / LEDGER)
    except TallyveilError:
        return "It is not known what was spent, because its ledger is not there or cannot be read."
    cost = spent(entries)
    if not cost:
        return "Its ledger shows no spend."
    return f"Its ledger shows that {declaration.budget_unit} = {exact_text(cost)} was spent."


def at_the_cost(draws: bool) -> str:
    """What work in another folder costs, as the end of a sentence."""
    return ", which is a new spend" if draws else "; estimating spends nothing"


def _bad_ledger(out: Path, reason: str, *, draws: bool) -> StoreError:
    why = "The run drew noise and" if draws else "The counts come from noise that a run drew, and the work"
    return StoreError(
        f"the ledger {out / LEDGER} is not as the run left it: {reason}. {why} cannot go on without the record of it. "
        f"Restore the ledger from a copy, or choose another folder{at_the_cost(draws)}.",
        code="ledger-damaged",
    )
