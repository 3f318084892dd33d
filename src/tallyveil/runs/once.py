"""The one lifecycle of a run: claim the folder, take the key, spend, work, seal. Killed anywhere, it goes on.

Everything is decided while the folder's lock is held, because the folder may change before that:

1. The key is on disk before the book of the register and then the ledger show the spend, and both show it before
   the first draw.
2. A key is made only in an empty folder. Where there is a ledger or a published file, a run goes on only
   with the key that began it.
3. The ledger is checked before any work, and again before the manifest is written. It must show exactly one
   spend: the run's own or, where work goes on from an earlier run's files, the spend of that run.
4. The manifest is kept in the private folder until the key is removed. Only then does it appear in the run
   folder.
5. What a plan asks for beside the finished release, such as intervals, is made before the lock is given up.

The ledger in the run folder is begun, continued, and held to the one spend of the run.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tallyveil.accounting.events import TEST_KEY
from tallyveil.accounting.ledger.book import (
    Spend,
    enter_spend_in_book,
    record_spends,
    require_room,
)
from tallyveil.accounting.ledger.file import Ledger, read_ledger
from tallyveil.accounting.ledger.lines import LEDGER, LedgerEntry, spent
from tallyveil.accounting.numbers import exact_text
from tallyveil.errors import StoreError, TallyveilError
from tallyveil.files.finished import LOG, PLAN, PRIVATE, ledger_record
from tallyveil.files.manifest import Manifest, Spent, library_versions, listed_file
from tallyveil.files.manifest_files import parsed_manifest, require_entered, written_manifest
from tallyveil.files.marks import release_marks
from tallyveil.noise.key import new_run_key
from tallyveil.primitives import require_aes256
from tallyveil.runs.executor import Executor, Executors, Threads
from tallyveil.runs.folder import CLUSTER, KEY_FILE, FolderState, RunFolder, folder_state
from tallyveil.runs.key_file import (
    Earlier,
    RunSecrets,
    key_file,
    public_secrets,
    read_key_file,
    refuse_other_work,
    require_same_work,
    work_file,
)
from tallyveil.runs.observer import Observer
from tallyveil.runs.product import Asked, Job, LastStep, Outcome, Product, Run, Work
from tallyveil.runs.status import Progress
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import remove
from tallyveil.storage.write import TEMPORARY_SUFFIX, file_digest, json_text, store_error, write_text
from tallyveil.version import VERSION


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


ONE_THREAD: Final = Threads()


def run_product(
    product: Product,
    out: Path,
    *,
    test_key: bytes | None = None,
    observer: Observer | None = None,
    last: LastStep | None = None,
    draws: bool = True,
    executors: Executors = ONE_THREAD,
    book: Path | None = None,
) -> Outcome:
    """Take a product from its plan to a sealed release, or go on with a run that was interrupted.

    Args:
        product: What to release.
        out: Release folder; absent, empty, or holding a run of this very plan and these inputs.
        test_key: Key of a run that protects nobody, for tests; None for a key from the operating system.
        observer: Told of progress.
        last: What is done once the release is finished.
        draws: Whether the product draws noise; False where it works on the measurements of an earlier run.
        executors: What does the chunks of the work.
        book: The book of the register; None for none.
    Raises:
        TallyveilError: nothing is spent before the folder and all inputs are checked. A release for which too little
            is left in the book is refused before any input is opened.
    Privacy: as `run_once`.
    """
    # Before anything is read: a finished release needs neither its inputs nor minutes of reading.
    if (outcome := finished_before(out, Asked(product.plan_digest, last, draws))) is not None:
        return _entered(outcome, book)
    # Noise is a stream of AES-256; a broken cipher library must be noticed before the spend.
    require_aes256()
    product.refuse(out)
    # An interrupted run is in the book already, or is entered below.
    if book is not None and test_key is None and folder_state(out) is FolderState.ABSENT:
        spend = product.spend()
        require_room(book, [] if spend is None else [spend])
    progress = Progress.of(observer)
    work = product.read(out, progress)
    return run_once(
        out, work, test_key=test_key, last=last, progress=progress, executors=executors, book=book
    )


def finished_before(out: Path, asked: Asked) -> Outcome | None:
    """Whether a folder holds this very release already; opens no input, and finishes what lacks only its last steps.

    Args:
        out: Release folder.
        asked: The plan, and what is done once the release is finished.
    Returns:
        The finished release; None where there is work to do.
    Raises:
        StoreError: the folder cannot be used: it holds another release, other files, or a run whose key is lost.
    """
    state = _usable_state(out, asked)
    if state not in (FolderState.FINISHED, FolderState.SEALED):
        return None
    if state is FolderState.FINISHED and not (out / PRIVATE).exists():
        manifest = written_manifest(out)
        _require_plan(out, manifest, asked)
        # Nothing is left to do, so the lock is not taken: a finished release can be read-only.
        if asked.last is None or asked.last.is_done(out):
            return Outcome(out, manifest, already_finished=True)
    with RunFolder(out) as folder:
        return _last_steps(folder, asked)


def run_once(
    out: Path,
    work: Work,
    *,
    test_key: bytes | None = None,
    last: LastStep | None = None,
    progress: Progress | None = None,
    executors: Executors = ONE_THREAD,
    book: Path | None = None,
) -> Outcome:
    """Make a release, or go on with one, or find that another process has made it.

    Args:
        out: Release folder; absent, empty, or holding a run of this very plan and these inputs.
        work: What the run will do. Its inputs are read, and everything that can fail with them has been tried.
        test_key: Key of a run that protects nobody, for tests; None for a key from the operating system.
        last: What is done once the release is finished.
        progress: Told of progress by the work; written into the private folder while its lock is held.
        executors: What does the chunks of the work. It is tried before anything is spent.
        book: The book of the register, into which the spend is entered first; None for none.
    Raises:
        StoreError: another process runs in the folder, or the folder cannot be used. Nothing is spent then.
        TallyveilError: what the work raises.
    Privacy: spends the job's event once, however often the run is interrupted and taken up again.
    """
    job = work.job()
    asked = Asked(job.plan_digest, last, draws=job.earlier is None)
    # Without the lock, which is cheap. The same question is asked again below, where the answer cannot change any
    # more.
    if (outcome := finished_before(out, asked)) is not None:
        return _entered(outcome, book)
    with RunFolder(out) as folder:
        # Another process may have finished while this one read its inputs or waited for the lock.
        if (outcome := _last_steps(folder, asked)) is not None:
            return _entered(outcome, book)
        # The executor is tried before `_begin` spends: a cluster that is not there must not cost a budget.
        with executors.begin(folder.private / CLUSTER) as executor:
            run = _begin(folder, job, test_key, executor, book)
            (progress or Progress()).begin(folder)
            body = work.release(run)
            checks = work.check(run)
        # The ledger is read again: somebody may have written to it during hours of work.
        require_one_spend(out, ledger_entries(out, draws=asked.draws), job, run.run_id)
        content = _manifest(run, job, body, checks).to_mapping()
        # A run that an earlier version began has a log with times and machines.
        remove(out / LOG)
        # From here on a kill leaves a folder that needs neither the key nor the inputs.
        folder.seal(json_text(content).encode())
        folder.publish()
        # Every file was compared with its digest a moment ago (`run.files`), so the last step need not do so.
        _close(folder, last, looked=True)
    return Outcome(out, written_manifest(out), already_finished=False)


def _manifest(run: Run, job: Job, body: JsonObject, checks: Sequence[str]) -> Manifest:
    """What the release says of itself, whatever the product."""
    protected = run.secrets.protected
    return Manifest(
        kind=job.kind,
        run=run.run_id,
        protected=protected,
        warnings=release_marks(protected=protected),
        plan_digest=job.plan_digest,
        event=job.event.to_mapping(),
        spent=Spent(job.declaration.budget_unit, job.declaration.total, run.spent),
        privacy=job.privacy,
        checks=tuple(checks),
        files=tuple(listed_file(run.path, path, digest) for path, digest in run.files().items()),
        tallyveil=run.versions,
        versions=library_versions(),
        ledger=ledger_record(run.path),
        declassified=(),
        body=body,
    )


def _usable_state(out: Path, asked: Asked) -> FolderState:
    """The state of a folder, once it is one that a run may use."""
    state = folder_state(out)
    # A plan without a ledger is most likely a run whose ledger was lost, and not foreign: say so before "foreign".
    if state is FolderState.FOREIGN and (out / PLAN).is_file():
        raise StoreError(
            f"{out} holds {PLAN}, and neither a ledger nor a manifest. If they were lost, restore them from a copy: "
            f"what the run spent is written there. If the files are of something else, choose another folder"
            f"{at_the_cost(asked.draws)}. Nothing was done.",
            code="folder-taken",
        )
    if state is FolderState.FOREIGN:
        raise StoreError(
            f"{out} holds files that do not belong to a Tallyveil run. Choose a new or empty folder with --out.",
            code="folder-taken",
        )
    if state is FolderState.PROGRAMME:
        raise StoreError(
            f"{out} holds the releases of a programme. Each of them has a folder of its own in it, and only the "
            "command of the programme adds to them. Choose another folder with --out.",
            code="folder-taken",
        )
    if state is FolderState.KEYLESS and not asked.draws:
        raise StoreError(
            f"{out} holds a ledger, and nothing from which work in it could go on. It is an estimate or "
            "an import whose folder private was removed, or a run whose key is lost; its ledger names the run that "
            "spent. Such work draws no noise, has no key of its own and "
            "spends nothing, so choose another folder for it.",
            code="key-lost",
        )
    if state is FolderState.KEYLESS:
        raise StoreError(
            f"{out} holds a ledger and no key. The key of its run is lost, or it was removed when the run ended, so "
            f"the same noise cannot be drawn again. {spent_in_words(out)} A new key would be a new spend, so "
            "nothing was done. Choose another folder for a new release, or restore this one from a copy.",
            code="key-lost",
        )
    return state


def _last_steps(folder: RunFolder, asked: Asked) -> Outcome | None:
    """The finished release, after the steps that a killed process left out; None where there is work to do."""
    state = _usable_state(folder.path, asked)
    manifest = None
    if state is FolderState.FINISHED:
        manifest = written_manifest(folder.path)
    elif state is FolderState.SEALED:
        manifest = _sealed_manifest(folder, asked)
    if manifest is None:
        return None
    # Before `publish`: a folder of another plan is refused as it is found.
    _require_plan(folder.path, manifest, asked)
    if state is FolderState.SEALED:
        folder.publish()
    _close(folder, asked.last, looked=state is FolderState.SEALED)
    # Read once more, because the last step may have added to it.
    return Outcome(folder.path, written_manifest(folder.path), already_finished=True)


def _close(folder: RunFolder, last: LastStep | None, *, looked: bool) -> None:
    """Do what is left in a finished folder, whose key is gone; then give the folder up, also where that fails.

    Args:
        folder: The folder of the run.
        last: What is left to do.
        looked: Whether every file has just been compared with the manifest.
    """
    try:
        if last is not None and not last.is_done(folder.path):
            last.do(folder.path, looked=looked)
    finally:
        folder.remove_private()


def _sealed_manifest(folder: RunFolder, asked: Asked) -> Manifest | None:
    """The sealed manifest whose files all stand as it says; None where the key can make them once more."""
    data = folder.sealed()
    manifest = None if data is None else parsed_manifest(folder.path, json.loads(data))
    # Each listed file is read once more, because the process that checked them may have died long ago.
    changed = (
        "the manifest in its private folder"
        if manifest is None
        else next(
            (path for path, digest in manifest.digests.items() if _differs(folder.path / path, digest)),
            None,
        )
    )
    if changed is None:
        return manifest
    # With the key gone, nothing can make the file again. With the key, the run goes on and makes it.
    if folder.read(KEY_FILE) is None:
        raise StoreError(
            f"the release in {folder.path} was nearly finished and its key is removed, but {changed} has been changed "
            f"or removed since. {spent_in_words(folder.path)} Restore it from a copy and run again, or choose another "
            f"folder{at_the_cost(asked.draws)}.",
            code="release-damaged",
        )
    folder.unseal()
    return None


def _differs(path: Path, digest: str) -> bool:
    return not path.is_file() or file_digest(path) != digest


def _require_plan(out: Path, manifest: Manifest, asked: Asked) -> None:
    """Refuse a finished release of another plan, or one that another command made; raises StoreError."""
    if manifest.plan_digest != asked.plan_digest:
        raise StoreError(
            f"{out} holds a finished release of another plan. Choose another folder.",
            code="folder-taken",
        )
    require_entered(out, manifest)
    if asked.last is not None:
        asked.last.refuse(out, manifest)


def _begin(folder: RunFolder, job: Job, test_key: bytes | None, executor: Executor, book: Path | None) -> Run:
    """Take or make the key, and enter the spend into the book and the ledger before the first draw."""
    out = folder.path
    entries = ledger_entries(out, draws=job.earlier is None)
    # The folder shows that the run has drawn or may have drawn. Then the ledger must show its spend, too.
    begun = any(entry.kind == "spend" for entry in entries) or bool(_written(out))
    stored = folder.read(KEY_FILE)
    key_stays = begun or stored is not None
    versions: tuple[str, ...] = (VERSION,)
    if stored is None:  # the folder is empty, or its state would be another
        secrets = _new_secrets(job, test_key)
        begun_with = key_file(secrets) if job.earlier is None else work_file(secrets, job.earlier)
        # On disk (and flushed) before the ledger: a spend without its key could never be continued.
        folder.write(KEY_FILE, json.dumps(begun_with, indent=2).encode())
    elif job.earlier is not None:
        # Not random: work that draws nothing has the same key on every machine, so it knows itself again.
        secrets = _new_secrets(job, test_key)
        require_same_work(out, stored, work_file(secrets, job.earlier))
    else:
        refuse_other_work(out, stored)
        spent_before = spent_in_words(out)
        secrets_and_versions = read_key_file(
            stored, str(out), job.binding, job.whole_plan, test_key, spent_before
        )
        secrets, versions = secrets_and_versions
        if stored != (key_text := json.dumps(key_file(secrets, versions), indent=2).encode()):
            folder.write(KEY_FILE, key_text)  # this version works on the run, too
    # Before the spend is entered: entering it again must not repair a ledger from which it was removed.
    if begun:
        require_one_spend(out, entries, job, secrets.run_id)
    try:
        # A test key protects nobody, so nothing that follows from it may be published, and it is in no book.
        if book is not None and job.earlier is None and secrets.protected:
            spend = _entry_of_book(out, job, secrets)
            if begun:
                # What a process without the book has spent cannot be refused any more.
                record_spends(book, [spend])
            else:
                # Before the ledger: a kill in between leaves too much in the book, never too little. The same command
                # goes on with the same key, and so finds its own entry.
                enter_spend_in_book(book, spend)
            key_stays = True
        entered = copy_ledger(out, job.earlier) if job.earlier else enter_spend(out / LEDGER, job, secrets)
    except TallyveilError:
        # Nothing was drawn yet, so the folder is left as it was found. A key that was there may be in the book.
        if not key_stays:
            (out / LEDGER).unlink(missing_ok=True)
            folder.abandon()
        raise
    # Read back as written: the first draw comes only after the ledger has been seen to show exactly one spend.
    require_one_spend(out, entered, job, secrets.run_id)
    _remove_half_written(out)
    spender = secrets.run_id if job.earlier is None else job.earlier.run
    return Run(folder, secrets, spent(entered), versions, executor, resumed=begun, spender=spender)


def _entered(outcome: Outcome, book: Path | None) -> Outcome:
    """The outcome of an earlier process, whose spend is entered into the book where that process had none."""
    if book is not None and outcome.manifest.protected:
        record_spends(book, spends_of(outcome.path))
    return outcome


def spends_of(out: Path) -> tuple[Spend, ...]:
    """What the ledger of a run shows, as it is entered into a book.

    Raises:
        StoreError: there is no ledger, or it is damaged.
    """
    declaration, entries = read_ledger(out / LEDGER)
    return tuple(
        Spend(
            entry.event,
            declaration.neighbours,
            named_in_a_book(entry.description, out),
            # Runs of Tallyveil have the run in the token. Other ledgers may use one token in two runs.
            entry.token if entry.token.startswith(f"{entry.run} ") else f"{entry.run} {entry.token}",
        )
        for entry in entries
        if entry.kind == "spend"
    )


def named_in_a_book(description: str, out: Path) -> str:
    """A release as a book names it: what was made, and in which folder."""
    return f"{description}, in {out.resolve().name}"


def _entry_of_book(out: Path, job: Job, secrets: RunSecrets) -> Spend:
    """What a run enters into a book, under the token of its ledger and with the name of its folder."""
    return Spend(
        job.event,
        job.declaration.neighbours,
        named_in_a_book(job.description, out),
        f"{secrets.run_id} {job.token}",
    )


def _new_secrets(job: Job, test_key: bytes | None) -> RunSecrets:
    """The secrets of a run that begins, or those of work that draws nothing and may have begun before."""
    if job.earlier is not None:
        return public_secrets(job.earlier, job.binding, job.whole_plan)
    return RunSecrets(test_key or new_run_key(), job.binding, job.whole_plan, test_key is None)


def _written(out: Path) -> list[str]:
    """Names of files and folders that a run folder has only after the spend; a ledger may be half written before it."""
    before = (PRIVATE, LEDGER, LEDGER + TEMPORARY_SUFFIX)
    return [path.name for path in out.iterdir() if path.name not in before]


def _remove_half_written(out: Path) -> None:
    """Remove the files that a killed process was writing."""
    for path in sorted(out.rglob("*" + TEMPORARY_SUFFIX)):
        # The private folder is looked after by `RunFolder`; its temporary files may be those of this very process.
        if path.is_file() and PRIVATE not in path.relative_to(out).parts[:1]:
            path.unlink(missing_ok=True)
