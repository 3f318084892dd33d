"""What the executor does with worker processes that finish, fail, die and lie; without Ray."""

import os
import socket
import stat
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.cluster_site import open_site
from tests.unit.runs.cluster.conftest import FILES_KEY, SECRET

from tallyveil.errors import ClusterError, ConstraintError, StoreError
from tallyveil.runs.cluster.executor import Cluster, RayExecutor
from tallyveil.runs.cluster.failures import UnwrittenError, WorkerDefectError, answer, result_of
from tallyveil.runs.executor import ClusterSettings

N = range(7)
SQUARES = {number: str(number**2 * len(SECRET)) for number in N}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cluster"


@pytest.fixture
def run(site, folder):
    def once(address=None, numbers=N, told=lambda event: None, site=site):
        with Cluster(ClusterSettings(), told).begin(folder) as executor:
            executor.serve(lambda: site)
            return dict(executor.completed(chunks_of(site, address or {}), numbers))

    return once


def chunks_of(site, address):
    return open_site(site.description, site.secret).chunks(address)


def done(here):
    return [request["arguments"][1] for request in here.sent if request.get("method") == "do"]


def test_all_chunks_are_done_once_in_the_given_order(here, run, site, folder):
    events = []
    assert run(numbers=[*reversed(N)], told=events.append) == SQUARES
    assert done(here) == [*reversed(N)]
    assert [event["number"] for event in events if event["event"] == "chunk finished"] == [*reversed(N)]
    assert {event["event"] for event in events} == {"chunk begun", "chunk finished"}
    here_and_now = {"address": {}, "host": socket.gethostname(), "pid": os.getpid()}
    assert events[0] == {"event": "chunk begun", "number": N[-1], **here_and_now}
    seconds = {event.pop("seconds", None) for event in events if event["event"] == "chunk finished"}
    assert all(0 < one < 10 for one in seconds)
    assert {"event": "chunk finished", "number": N[-1], **here_and_now} in events
    assert (here.settings, here.left) == (ClusterSettings(), [None])
    assert not list(folder.glob("nonce-*"))


def test_the_secret_is_in_no_request(here, run, site, folder):
    run()
    assert SECRET.hex() not in str(here.sent)
    assert SECRET.decode() not in str(here.sent)
    assert SECRET.decode() not in repr(site)


def test_finished_chunks_are_not_done_again(here, run, site, folder):
    run(numbers=[2, 4])
    here.sent.clear()
    assert run() == SQUARES
    assert sorted(done(here)) == [0, 1, 3, 5, 6]


def test_a_forged_chunk_is_done_again(here, run, site, folder):
    run()
    for path in (folder / "chunks").iterdir():
        if path.suffix != ".json":
            path.write_text("forged")
    here.sent.clear()
    assert run() == SQUARES
    assert sorted(done(here)) == [*N]


def test_a_dead_worker_process_is_replaced_and_its_chunk_repeated(here, run, site, folder):
    events, killed = [], []
    here.dies = lambda method, given: (
        method == "do" and given[1] in (1, 3) and given[1] not in killed and not killed.append(given[1])
    )
    assert run(told=events.append) == SQUARES
    repeated = [event for event in events if event["event"] == "chunk repeated"]
    assert [event["number"] for event in repeated] == [1, 3]
    assert {event["why"] for event in repeated} == {"its worker process died"}
    assert all(
        0 <= event["seconds"] < 10 and event["seconds"] == round(event["seconds"], 3) for event in repeated
    )
    assert sum(request["do"] == "hire" for request in here.sent) == 4


def test_a_chunk_that_kills_three_worker_processes_ends_the_run(here, run, site, folder):
    here.dies = lambda method, given: method == "do" and given[1] == 3
    with pytest.raises(ClusterError, match=r'chunk 3 of \{"level": 9\} was begun 3 times') as caught:
        run({"level": 9})
    assert caught.value.code == "chunk-kills-workers"
    assert done(here).count(3) == 3


def test_worker_processes_that_never_start_end_the_run(here, run, site, folder):
    here.dies = lambda method, given: method == "open"
    with pytest.raises(ClusterError, match="6 worker processes in a row ended") as caught:
        run()
    assert caught.value.code == "cluster-no-workers"
    assert [request["do"] for request in here.sent].count("hire") == 7  # one is left when the sixth ends


def test_a_cluster_without_room_is_not_waited_for_for_ever(here, run, site, folder, monkeypatch):
    monkeypatch.setattr("tallyveil.runs.cluster.executor.START_SECONDS", 0.1)
    monkeypatch.setattr(here, "report", lambda seconds: time.sleep(0.02))
    with pytest.raises(ClusterError, match=r"no worker process for 0\.1 seconds") as caught:
        run()
    assert caught.value.code == "cluster-no-workers"


def test_an_error_of_the_work_is_raised_at_once(here, run, site, folder):
    with pytest.raises(ConstraintError, match="too large") as caught:
        run({"at": {"0": "refuse"}})
    assert caught.value.code == "bounds-broken"
    assert done(here).count(0) == 1


def test_an_error_of_the_opener_is_raised(here, run, site, folder):
    closed = replace(site, description=site.description | {"refuse": 1})
    with pytest.raises(ConstraintError, match="no run is here"):
        run(site=closed)
    assert here.left == [ConstraintError]


def test_a_defect_is_raised_without_its_values(here, run, site, folder):
    with pytest.raises(WorkerDefectError, match=r"KeyError[^$]*cluster_site.py:\d+ in square") as caught:
        run({"at": {"0": "defect"}})
    assert SECRET.decode() not in str(caught.value)


def test_a_full_disk_of_one_machine_sets_it_aside(here, run, site, folder, monkeypatch):
    """The first worker process cannot write; the second one does all."""
    events = []
    keep = "tallyveil.runs.cluster.chunk_files.file_digest"
    from tallyveil.storage.write import file_digest

    failing = iter([True])
    monkeypatch.setattr(keep, lambda path: full() if next(failing, False) else file_digest(path))
    assert run(told=events.append) == SQUARES
    repeated = [event for event in events if event["event"] == "chunk repeated"]
    assert [event["why"] for event in repeated] == ["not written"]
    (aside,) = [event for event in events if event["event"] == "worker set aside"]
    assert "is full" in aside["why"]
    assert [request["do"] for request in here.sent].count("dismiss") == 1
    assert [request["do"] for request in here.sent].count("hire") == 2


class Machines:
    """Answers of worker processes on machines of these names, some of which cannot write.

    Attributes:
        gave: Numbers of worker processes and chunks, as they were given.
    """

    def __init__(self, here, names, closed):
        self.here, self.names, self.closed, self.gave = here, names, closed, []
        here.cpus, here.says = len(names), self.says

    def says(self, asked):
        host, method = self.names[asked["worker"]], asked["method"]
        if method == "do":
            self.gave.append((asked["worker"], asked["arguments"][1]))
            return answer(self.cannot_write) if host in self.closed else None
        text = getattr(self.here._workers[asked["worker"]], method)(*asked["arguments"])
        return answer(lambda: result_of(text) | {"host": host}) if method == "hello" else text

    def cannot_write(self):
        raise UnwrittenError(StoreError("the disk is full.", code="disk-full"))


def test_what_one_machine_cannot_write_another_machine_does(here, run, folder):
    """The second process of the machine that failed does not get the same chunk, but other ones."""
    machines = Machines(here, ["a", "a", "b"], {"a"})
    assert run(numbers=[0, 1]) == {0: SQUARES[0], 1: SQUARES[1]}
    assert machines.gave == [(0, 0), (1, 1), (2, 0), (2, 1)]


def test_a_chunk_goes_from_machine_to_machine(here, run, folder):
    machines = Machines(here, ["a", "a", "b", "b", "c"], {"a", "b"})
    assert run(numbers=[0]) == {0: SQUARES[0]}
    assert machines.gave == [(0, 0), (2, 0), (4, 0)]


def test_a_chunk_is_tried_three_times_where_there_is_no_other_machine(here, run, folder):
    machines = Machines(here, ["a"] * 5, {"a"})
    with pytest.raises(StoreError) as caught:
        run(numbers=[0])
    assert caught.value.code == "disk-full"
    assert machines.gave == [(0, 0), (1, 0), (2, 0)]


def test_a_chunk_may_kill_two_worker_processes_and_another_chunk_two_others(here, run, folder):
    deaths = Counter()

    def dies(method, given):
        if method == "do" and given[1] in (2, 5) and deaths[given[1]] < 2:
            deaths[given[1]] += 1
            return True
        return False

    here.dies = dies
    assert run() == SQUARES
    assert deaths == {2: 2, 5: 2}


def test_other_machines_are_told_whole_paths(here, site, tmp_path, monkeypatch):
    """They work in other folders."""
    monkeypatch.chdir(tmp_path)
    with RayExecutor(ClusterSettings(), Path("cluster")) as executor:
        executor.serve(lambda: site)
    paths = [request["arguments"] for request in here.sent if request.get("method") in ("hello", "open")]
    assert Path(paths[0][0]).parent == tmp_path / "cluster"
    assert paths[-1][3] == str(tmp_path / "cluster" / "chunks")


def test_one_worker_process_is_asked_for_where_no_processor_is_free(here, folder):
    here.cpus = 0
    with RayExecutor(ClusterSettings(), folder):
        assert [request["do"] for request in here.sent].count("hire") == 1


def test_an_interruption_while_joining_leaves_the_cluster(here, folder):
    def interrupts(method, given):
        raise KeyboardInterrupt

    here.dies = interrupts
    with pytest.raises(KeyboardInterrupt), RayExecutor(ClusterSettings(), folder):
        pass
    assert here.left == [KeyboardInterrupt]
    assert not folder.exists()


def full():
    raise OSError(28, "No space left on device")


def test_a_disk_that_is_full_everywhere_ends_the_run(here, run, site, folder):
    here.cpus = 5
    with pytest.raises(StoreError) as caught:
        run({"full": 1})
    assert caught.value.code == "disk-full"


def test_the_last_worker_process_that_cannot_write_ends_the_run(here, run, site, folder):
    here.cpus = 1
    with pytest.raises(StoreError) as caught:
        run({"at": {"0": "unread"}})
    assert caught.value.code == "write-failed"


@pytest.mark.parametrize("name", ["Tallyveil", "Python", "numpy", "numba", "polars"])
def test_another_version_is_refused(here, run, site, folder, monkeypatch, name):
    from tallyveil.runs.cluster.worker import this_installation

    other = this_installation() | {name: "0.0.1"}
    monkeypatch.setattr("tallyveil.runs.cluster.executor.this_installation", lambda: other)
    with pytest.raises(ClusterError, match=f"has {name} .*driver has 0.0.1") as caught:
        run()
    assert caught.value.code == "cluster-version"


def test_a_folder_that_is_not_shared_is_refused(here, run, site, folder, monkeypatch):
    monkeypatch.setattr("tallyveil.runs.cluster.executor.write_text", lambda path, text: None)
    with pytest.raises(ClusterError, match="does not see a file") as caught:
        run()
    assert caught.value.code == "cluster-folder"


def test_all_worker_processes_are_looked_at_before_a_run_goes_on(here, folder, monkeypatch):
    """The second one does not see the folder. That is known before anything is spent."""
    seen = iter([True, False])
    monkeypatch.setattr(
        "tallyveil.runs.cluster.worker._read", lambda path: path.read_text() if next(seen) else ""
    )
    with pytest.raises(ClusterError, match="does not see a file"), RayExecutor(ClusterSettings(), folder):
        pass
    assert not folder.exists()


@pytest.mark.parametrize(("workers", "cpus"), [(9, 1), (1, 9)])
def test_only_worker_processes_that_can_come_are_waited_for(here, folder, workers, cpus):
    here.cpus = cpus
    begun = time.monotonic()
    with RayExecutor(ClusterSettings(workers=workers), folder):
        assert time.monotonic() - begun < 10


def test_worker_processes_that_do_not_come_are_waited_for_some_time(here, folder, monkeypatch):
    monkeypatch.setattr("tallyveil.runs.cluster.executor.GATHER_SECONDS", 0.2)
    send = here.send
    monkeypatch.setattr(here, "send", lambda request: request["worker"] == 1 or send(request))
    begun = time.monotonic()
    with RayExecutor(ClusterSettings(), folder) as executor:
        assert executor._crew.n_confirmed() == 1
    assert 0.2 <= time.monotonic() - begun < 10


def test_a_worker_process_without_the_token_is_refused(here, run, site, folder):
    here.token = b"another"
    with pytest.raises(ClusterError, match="does not know the token") as caught:
        run()
    assert caught.value.code == "cluster-token"
    assert not [request for request in here.sent if request.get("method") == "open"]


def test_an_open_cluster_needs_no_token(here, run, site, folder):
    here.token = None
    assert run() == SQUARES


def test_an_opener_that_cannot_be_imported_is_refused(here, run, site, folder):
    absent = replace(site, opener="no.such:opener")
    with pytest.raises(ClusterError, match=r"cannot import 'no\.such:opener'") as caught:
        run(site=absent)
    assert caught.value.code == "cluster-version"


def test_an_abandoned_round_does_not_disturb_the_next_one(here, site, folder):
    with RayExecutor(ClusterSettings(), folder) as executor:
        executor.serve(lambda: site)
        first = executor.completed(chunks_of(site, {"round": 1}), N)
        next(first)
        first.close()
        assert dict(executor.completed(chunks_of(site, {"round": 2}), N)) == SQUARES


def test_an_executor_is_used_within_its_statement(here, site, folder):
    executor = RayExecutor(ClusterSettings(), folder)
    with pytest.raises(ValueError, match="outside"):
        executor.serve(lambda: site)
    with executor, pytest.raises(ValueError, match="before it was told"):
        next(executor.completed(chunks_of(site, {}), N))


def test_begin_gives_no_secret_and_leaves_nothing(here, site, folder):
    """What can fail before the spend has failed then: a worker process has shown versions, folder and token."""
    with RayExecutor(ClusterSettings(), folder) as executor:
        assert executor.is_remote
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {request.get("method") for request in here.sent} == {None, "hello", "confirm"}
    assert not folder.exists()
    assert here.left == [None]


def test_a_failed_begin_keeps_what_was_there(here, run, site, folder, monkeypatch):
    run()
    kept = sorted(folder.rglob("*"))
    here.token = b"another"
    with pytest.raises(ClusterError), RayExecutor(ClusterSettings(), folder):
        pass
    assert sorted(folder.rglob("*")) == kept
    assert here.left == [None, ClusterError]


def test_results_are_found_again_with_another_secret(here, run, site):
    """A resumed run has a new secret, and the same key of its files."""
    run(numbers=[2, 4])
    here.sent.clear()
    assert len(SECRET) == len(b"s" * len(SECRET))
    assert run(site=replace(site, secret=b"s" * len(SECRET))) == SQUARES
    assert sorted(done(here)) == [0, 1, 3, 5, 6]
    here.sent.clear()
    assert run(site=replace(site, files_key=FILES_KEY[::-1])) == SQUARES
    assert sorted(done(here)) == [*N]


def test_a_file_is_shared_whole_and_with_this_user_alone(here, site, folder):
    with RayExecutor(ClusterSettings(), folder) as executor:
        for text in ("first", "second"):
            executor.share("name", partial(Path.write_text, data=text))
        (shared,) = (folder / "shared").iterdir()
        assert shared.read_text() == "second"
        assert stat.S_IMODE(shared.stat().st_mode) == 0o600

        def full_disk(path):
            full()

        with pytest.raises(StoreError) as caught:
            executor.share("name", full_disk)
        assert caught.value.code == "disk-full"


def test_a_folder_that_cannot_be_made_is_said(here, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError), RayExecutor(ClusterSettings(), tmp_path / "file" / "cluster"):
        pass
    assert here.left == [StoreError]
