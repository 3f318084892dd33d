"""What the executor does with worker processes that finish, fail, die and lie; without Ray."""

import time

import pytest
from tests.cluster_site import open_site
from tests.unit.runs.cluster.conftest import SECRET

from tallyveil.errors import ClusterError, ConfigError, ConstraintError, StoreError
from tallyveil.runs.cluster.executor import RayExecutor
from tallyveil.runs.cluster.failures import WorkerDefectError
from tallyveil.runs.cluster.site import ClusterSettings, Site

N = range(7)
SQUARES = {number: str(number**2 * len(SECRET)) for number in N}


def run(site, address=None, numbers=N, told=lambda event: None):
    with RayExecutor(ClusterSettings(), site, told) as executor:
        return dict(executor.completed(chunks_of(site, address or {}), numbers))


def chunks_of(site, address):
    return open_site(site.description, site.secret).chunks(address)


def done(here):
    return [request["arguments"][1] for request in here.sent if request.get("method") == "do"]


def test_all_chunks_are_done_once_in_the_given_order(here, site):
    events = []
    assert run(site, numbers=[*reversed(N)], told=events.append) == SQUARES
    assert done(here) == [*reversed(N)]
    assert [event["number"] for event in events if event["chunk"] == "finished"] == [*reversed(N)]
    assert {event["chunk"] for event in events} == {"begun", "finished"}
    assert events[0].keys() == {"chunk", "number", "address", "host", "pid"}
    assert here.left
    assert not list(site.folder.glob("nonce-*"))


def test_the_secret_is_in_no_request(here, site):
    run(site)
    assert SECRET.hex() not in str(here.sent)
    assert SECRET.decode() not in str(here.sent)
    assert SECRET.decode() not in repr(site)


def test_finished_chunks_are_not_done_again(here, site):
    run(site, numbers=[2, 4])
    here.sent.clear()
    assert run(site) == SQUARES
    assert sorted(done(here)) == [0, 1, 3, 5, 6]


def test_a_forged_chunk_is_done_again(here, site):
    run(site)
    for path in site.folder.iterdir():
        if path.suffix != ".json":
            path.write_text("forged")
    here.sent.clear()
    assert run(site) == SQUARES
    assert sorted(done(here)) == [*N]


def test_a_dead_worker_process_is_replaced_and_its_chunk_repeated(here, site):
    events, killed = [], []
    here.dies = lambda method, given: (
        method == "do" and given[1] in (1, 3) and given[1] not in killed and not killed.append(given[1])
    )
    assert run(site, told=events.append) == SQUARES
    repeated = [event for event in events if event["chunk"] == "repeated"]
    assert [event["number"] for event in repeated] == [1, 3]
    assert {event["why"] for event in repeated} == {"its worker process died"}
    assert sum(request["do"] == "hire" for request in here.sent) == 4


def test_a_chunk_that_kills_three_worker_processes_ends_the_run(here, site):
    here.dies = lambda method, given: method == "do" and given[1] == 3
    with pytest.raises(ClusterError, match=r'chunk 3 of \{"level": 9\} was begun 3 times') as caught:
        run(site, {"level": 9})
    assert caught.value.code == "chunk-kills-workers"
    assert done(here).count(3) == 3


def test_worker_processes_that_never_start_end_the_run(here, site):
    here.dies = lambda method, given: method == "open"
    with pytest.raises(ClusterError, match="6 worker processes in a row ended") as caught:
        run(site)
    assert caught.value.code == "cluster-no-workers"


def test_a_cluster_without_room_is_not_waited_for_for_ever(here, site, monkeypatch):
    monkeypatch.setattr("tallyveil.runs.cluster.crew.START_SECONDS", 0.1)
    monkeypatch.setattr(here, "report", lambda seconds: time.sleep(0.02))
    with pytest.raises(ClusterError, match=r"no worker process for 0\.1 seconds") as caught:
        run(site)
    assert caught.value.code == "cluster-no-workers"


def test_an_error_of_the_work_is_raised_at_once(here, site):
    with pytest.raises(ConstraintError, match="too large") as caught:
        run(site, {"at": {"0": "refuse"}})
    assert caught.value.code == "bounds-broken"
    assert done(here).count(0) == 1


def test_an_error_of_the_opener_is_raised(here, site):
    closed = Site(site.opener, site.description | {"refuse": 1}, site.secret, site.folder)
    with pytest.raises(ConstraintError, match="no run is here"):
        run(closed)
    assert here.left


def test_a_defect_is_raised_without_its_values(here, site):
    with pytest.raises(WorkerDefectError, match=r"KeyError[^$]*cluster_site.py:\d+ in square") as caught:
        run(site, {"at": {"0": "defect"}})
    assert SECRET.decode() not in str(caught.value)


def test_a_full_disk_of_one_machine_sets_it_aside(here, site, monkeypatch):
    """The first worker process cannot write; the second one does all."""
    events = []
    keep = "tallyveil.runs.cluster.chunk_files.file_digest"
    from tallyveil.storage.write import file_digest

    failing = iter([True])
    monkeypatch.setattr(keep, lambda path: full() if next(failing, False) else file_digest(path))
    assert run(site, told=events.append) == SQUARES
    repeated = [event for event in events if event["chunk"] == "repeated"]
    assert [event["why"] for event in repeated] == ["not written"]
    assert [request["do"] for request in here.sent].count("dismiss") == 1
    assert [request["do"] for request in here.sent].count("hire") == 2


def full():
    raise OSError(28, "No space left on device")


def test_a_disk_that_is_full_everywhere_ends_the_run(here, site):
    here.cpus = 5
    with pytest.raises(StoreError) as caught:
        run(site, {"full": 1})
    assert caught.value.code == "disk-full"


def test_the_last_worker_process_that_cannot_write_ends_the_run(here, site):
    here.cpus = 1
    with pytest.raises(StoreError) as caught:
        run(site, {"at": {"0": "unread"}})
    assert caught.value.code == "write-failed"


@pytest.mark.parametrize("name", ["Tallyveil", "Python", "numpy", "numba", "polars"])
def test_another_version_is_refused(here, site, monkeypatch, name):
    from tallyveil.runs.cluster.worker import this_installation

    other = this_installation() | {name: "0.0.1"}
    monkeypatch.setattr("tallyveil.runs.cluster.crew.this_installation", lambda: other)
    with pytest.raises(ClusterError, match=f"has {name} .*driver has 0.0.1") as caught:
        run(site)
    assert caught.value.code == "cluster-version"


def test_a_folder_that_is_not_shared_is_refused(here, site, monkeypatch):
    monkeypatch.setattr("tallyveil.runs.cluster.crew.write_text", lambda path, text: None)
    with pytest.raises(ClusterError, match="does not see a file") as caught:
        run(site)
    assert caught.value.code == "cluster-folder"


def test_a_worker_process_without_the_token_is_refused(here, site):
    here.token = b"another"
    with pytest.raises(ClusterError, match="does not know the token") as caught:
        run(site)
    assert caught.value.code == "cluster-token"
    assert not [request for request in here.sent if request.get("method") == "open"]


def test_an_open_cluster_needs_no_token(here, site):
    here.token = None
    assert run(site) == SQUARES


def test_an_opener_that_cannot_be_imported_is_refused(here, site):
    absent = Site("no.such:opener", {}, site.secret, site.folder)
    with pytest.raises(ClusterError, match=r"cannot import 'no\.such:opener'") as caught:
        run(absent)
    assert caught.value.code == "cluster-version"


def test_an_abandoned_round_does_not_disturb_the_next_one(here, site):
    with RayExecutor(ClusterSettings(), site, lambda event: None) as executor:
        first = executor.completed(chunks_of(site, {"round": 1}), N)
        next(first)
        first.close()
        assert dict(executor.completed(chunks_of(site, {"round": 2}), N)) == SQUARES


def test_an_executor_is_used_within_its_statement(site):
    executor = RayExecutor(ClusterSettings(), site, lambda event: None)
    with pytest.raises(ValueError, match="outside"):
        next(executor.completed(chunks_of(site, {}), N))


def test_an_error_before_the_first_chunk_leaves_the_cluster(here, site, monkeypatch):
    monkeypatch.setattr(
        "tallyveil.runs.cluster.crew.write_text", lambda path, text: (_ for _ in ()).throw(ConfigError("x"))
    )
    with pytest.raises(ConfigError):
        run(site)
    assert here.left
