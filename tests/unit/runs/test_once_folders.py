"""What a run begins with: the folder that it is given, what does its work, and what its manifest then says."""

import hashlib
import json

import pytest

import tallyveil
from tallyveil.errors import ClusterError, StoreError
from tallyveil.files.finished import record_of
from tallyveil.files.manifest import ListedFile, Manifest, Spent, library_versions
from tallyveil.files.marks import release_marks
from tallyveil.runs.executor import Threads
from tallyveil.runs.key_file import RunSecrets
from tallyveil.runs.once import finished_before, run_once, run_product
from tallyveil.runs.product import Asked

from .conftest import KEY, PLAN, PRIVACY, Killed, Toy, contents, make_job

UNUSABLE = [
    (
        "plan.json",
        True,
        "folder-taken",
        "neither a ledger nor a manifest.* folder, which is a new spend. Nothing",
    ),
    (
        "plan.json",
        False,
        "folder-taken",
        "neither a ledger nor a manifest.* folder; estimating spends nothing. Not",
    ),
    ("other.txt", True, "folder-taken", "do not belong to a Tallyveil run"),
    ("programme.json", True, "folder-taken", "holds the releases of a programme"),
    ("ledger.jsonl", True, "key-lost", "It is not known what was spent.* A new key would be a new spend"),
    ("ledger.jsonl", False, "key-lost", "has no key of its own and spends nothing"),
]


@pytest.mark.parametrize(("name", "draws", "code", "words"), UNUSABLE)
def test_a_folder_that_no_run_can_use_is_refused_and_left(tmp_path, name, draws, code, words):
    (tmp_path / name).write_text("{}")
    for act in (
        lambda: finished_before(tmp_path, Asked(PLAN.hex(), draws=draws)),
        lambda: run_product(Toy(), tmp_path, test_key=KEY, draws=draws),
    ):
        with pytest.raises(StoreError, match=words) as caught:
            act()
        assert caught.value.code == code
        assert str(caught.value).startswith(f"{tmp_path} holds ")
    assert contents(tmp_path) == {name: b"{}"}


def test_a_product_refuses_a_folder_before_it_reads(tmp_path):
    class Choosy(Toy):
        def refuse(self, out):
            raise StoreError(f"not {out.name}")

        def read(self, out, observer):
            raise AssertionError

    with pytest.raises(StoreError, match="not out"):
        run_product(Choosy(), tmp_path / "out", test_key=KEY)
    assert list(tmp_path.iterdir()) == []


class Machines:
    """Makes an executor, and notes when; `error` is raised instead."""

    def __init__(self, error=None):
        self.error, self.executor, self.seen = error, Threads(3), []

    def begin(self, folder):
        self.seen.append((folder.relative_to(folder.parents[1]).as_posix(), folder.exists()))
        self.seen.append(sorted(path.name for path in folder.parents[1].iterdir()))
        if self.error is not None:
            raise self.error
        return self

    def __enter__(self):
        return self.executor

    def __exit__(self, *_):
        self.seen.append("left")


def test_what_does_the_work_is_there_before_the_spend_and_is_left_after_the_work(tmp_path):
    machines, during = Machines(), []
    toy = Toy(during=lambda run: during.append((run.executor, len(machines.seen))))
    run_once(tmp_path / "out", toy, test_key=KEY, executors=machines)
    assert machines.seen == [("private/cluster", False), ["private"], "left"]
    assert during == [(machines.executor, 2)]
    run_product(Toy(during=toy.during), tmp_path / "other", test_key=KEY, executors=machines)
    assert during[1] == (machines.executor, 5)


def test_machines_that_cannot_be_had_cost_nothing(tmp_path):
    machines = Machines(ClusterError("no machines.", code="cluster-unreachable"))
    with pytest.raises(ClusterError):
        run_once(tmp_path / "out", Toy(), test_key=KEY, executors=machines)
    assert list(tmp_path.iterdir()) == []


def test_a_run_knows_whether_an_earlier_process_has_spent(tmp_path):
    resumed = []

    def during(run):
        resumed.append((run.resumed, run.spent))
        if len(resumed) < 3:
            raise Killed

    for _ in range(2):
        with pytest.raises(Killed):
            run_once(tmp_path / "out", Toy(during=during), test_key=KEY)
    run_once(tmp_path / "out", Toy(during=during), test_key=KEY)
    assert resumed == [(False, 1), (True, 1), (True, 1)]


def test_a_run_shows_its_work_what_it_has_written(tmp_path):
    """Also what it made again and removed since."""

    def during(run):
        assert run.tags == run.secrets.file_tags()
        assert run.path == tmp_path / "out"
        written = [one.path for one in run.listed()]
        assert written == ["a/part-00000.parquet", "a.txt", "b/part-00000.parquet", "b.txt", "plan.json"]
        data = {path: (run.path / path).read_bytes() for path in written}
        assert run.listed() == tuple(
            ListedFile(path, len(text), hashlib.sha256(text).hexdigest()) for path, text in data.items()
        )
        assert run.make(["c.txt"], lambda: (run.path / "c.txt").write_text("c")) == 1
        run.remove(["a"])
        assert [one.path for one in run.listed()] == [
            "a.txt",
            "b/part-00000.parquet",
            "b.txt",
            "c.txt",
            "plan.json",
        ]
        assert [*run.files()] == [one.path for one in run.listed()]

    run_once(tmp_path / "out", Toy(during=during), test_key=KEY)


@pytest.mark.parametrize("test_key", [KEY, None])
def test_the_manifest_says_what_was_done_and_nothing_else(tmp_path, test_key):
    named = []
    toy = Toy({"privacy": {"Größe": PRIVACY}}, lambda run: named.append(run.run_id))
    outcome = run_product(toy, tmp_path / "out", test_key=test_key)
    files = contents(tmp_path / "out")
    ledger = files.pop("ledger.jsonl")
    text = files.pop("manifest.json").decode()
    job, protected = make_job(), test_key is None
    assert outcome.path == tmp_path / "out"
    assert outcome.manifest == Manifest(
        kind=job.kind,
        run=named[0],
        protected=protected,
        warnings=release_marks(protected=protected),
        plan_digest=PLAN.hex(),
        event=job.event.to_mapping(),
        spent=Spent("rho", job.declaration.total, 1),
        privacy={"Größe": PRIVACY},
        checks=("a is there", "b is there"),
        files=tuple(
            ListedFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in files.items()
        ),
        tallyveil=(tallyveil.__version__,),
        versions=library_versions(),
        ledger=record_of(ledger, ledger.count(b"\n")),
        declassified=(),
        body={"sizes": {"a": {"groups": {"rows": 1}}, "b": {"groups": {"rows": 1}}}},
    )
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    if not protected:
        assert named == [RunSecrets(KEY, job.binding, job.whole_plan, protected=False).run_id]
