"""The worker processes of a run, step by step, on a connection whose reports the test writes."""

import json
from collections import deque

import pytest
from tests.unit.runs.cluster.conftest import FILES_KEY, SECRET, TOKEN

from tallyveil.errors import ClusterError, StoreError
from tallyveil.runs.cluster import executor as module
from tallyveil.runs.cluster.channel import WorkerEnd
from tallyveil.runs.cluster.executor import Answered, Crew, Died, Step
from tallyveil.runs.cluster.failures import UnwrittenError, answer
from tallyveil.runs.cluster.worker import this_installation


class Line:
    """A connection. Each worker process is nothing but its end of the channel.

    Attributes:
        sent: All requests.
        ends: Ends by the number of the worker process.
    """

    token = TOKEN

    def __init__(self) -> None:
        self.sent, self.ends, self.reports = [], {}, deque()

    def send(self, request):
        assert len(self.sent) < 200
        self.sent.append(request)
        if request["do"] == "hire":
            self.ends[request["worker"]] = WorkerEnd(TOKEN)

    def report(self, seconds):
        return self.reports.popleft() if self.reports else None

    def calls(self, method):
        return [one for one in self.sent if one.get("method") == method]

    def last(self, number):
        """The last call of a worker process."""
        return next(one for one in reversed(self.sent) if one["do"] == "call" and one["worker"] == number)


class Clock:
    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def line():
    return Line()


@pytest.fixture
def told():
    return []


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def crew(line, told, tmp_path, clock):
    """Two worker processes that are hired."""
    made = Crew(line, tmp_path, 2, told.append)
    made.fill()
    return made


def says(crew, line, number, text):
    line.reports.append({"event": "answer", "call": line.last(number)["call"], "text": text})
    return crew.next(0)


def dies(crew, line, number):
    line.reports.append({"event": "died", "call": line.last(number)["call"], "why": "ActorDiedError"})
    return crew.next(0)


def result(value):
    return answer(lambda: value)


def cannot_write():
    raise UnwrittenError(StoreError("the disk is full.", code="disk-full"))


def confirms(crew, line, number, **more):
    """A worker process says hello and proves that it knows the token. Each is on a machine of its own."""
    end = line.ends[number]
    nonce = next(crew._folder.glob("nonce-*")).read_text()
    said = {
        **this_installation(),
        "host": f"host{number}",
        "pid": 70 + number,
        "nonce": nonce,
        "public": end.public,
    }
    says(crew, line, number, result(said | more))
    (driver,) = line.last(number)["arguments"]
    says(crew, line, number, result(end.confirmation(driver)))


def opens(crew, line, number):
    confirms(crew, line, number)
    assert line.last(number)["method"] == "open"
    assert says(crew, line, number, result(None)) is None


def numbers(workers):
    return [worker.number for worker in workers]


def test_each_worker_process_has_a_number_and_each_call_another(crew, line, tmp_path):
    nonce = str(next(tmp_path.glob("nonce-*")))
    hello = {"do": "call", "method": "hello", "arguments": [nonce, 0]}
    assert [{**one, "call": 0} for one in line.sent] == [
        {"do": "hire", "worker": 0, "call": 0},
        {**hello, "worker": 0, "call": 0},
        {"do": "hire", "worker": 1, "call": 0},
        {**hello, "worker": 1, "call": 0},
    ]
    confirms(crew, line, 0)
    confirms(crew, line, 1)
    calls = [one["call"] for one in line.sent if one["do"] == "call"]
    assert len(set(calls)) == len(calls) == 4
    crew.fill()
    assert len(line.sent) == 6
    crew.close()
    crew.close()
    assert list(tmp_path.iterdir()) == []


def test_what_each_step_makes_of_a_worker_process(crew, line, site, tmp_path):
    """Those that wait open the run when it is served; later ones when they come."""
    assert crew.n_confirmed() == 0
    confirms(crew, line, 0)
    assert (crew.n_confirmed(), numbers(crew.free()), crew.hosts()) == (1, [], set())
    assert line.calls("open") == []
    crew.serve(site, tmp_path / "chunks")
    assert len(line.calls("open")) == 1
    assert (numbers(crew.free()), crew.hosts()) == ([], set())
    says(crew, line, 0, result(None))
    assert (numbers(crew.free()), crew.hosts()) == ([0], {"host0"})
    opens(crew, line, 1)
    assert (crew.n_confirmed(), crew.hosts()) == (2, {"host0", "host1"})
    first, second = crew.free()
    call = crew.begin(first, '{"level": 3}', 5)
    assert line.last(0) == {
        "do": "call", "call": call, "worker": 0, "method": "do", "arguments": ['{"level": 3}', 5],
    }  # fmt: skip
    assert (crew.n_confirmed(), numbers(crew.free()), crew.hosts()) == (2, [1], {"host0", "host1"})
    text = result({"sha256": "", "seconds": 1})
    assert says(crew, line, 0, text) == Answered(first, call, text)
    assert numbers(crew.free()) == [0, 1]
    again = crew.begin(second, "{}", 6)
    assert dies(crew, line, 1) == Died(second, again)
    assert (numbers(crew.free()), crew.hosts()) == ([0], {"host0"})
    crew.fill()
    assert line.last(2)["method"] == "hello"


def test_a_run_is_opened_with_what_the_site_says(crew, line, site, tmp_path):
    confirms(crew, line, 0)
    crew.serve(site, tmp_path / "chunks")
    driver, sealed, opener, folder, description = line.last(0)["arguments"]
    assert line.ends[0].opened(driver, sealed) == FILES_KEY + SECRET
    assert (opener, folder) == (site.opener, str(tmp_path / "chunks"))
    assert json.loads(description) == site.description


def test_a_report_of_a_worker_process_that_was_dismissed_is_passed_over(crew, line, site, tmp_path, told):
    crew.serve(site, tmp_path / "chunks")
    opens(crew, line, 0)
    crew.dismiss(crew.free()[0], StoreError("the disk is full."))
    assert told == [{"event": "worker set aside", "host": "host0", "pid": 70, "why": "the disk is full."}]
    assert line.sent[-1] == {"do": "dismiss", "worker": 0}
    assert dies(crew, line, 0) is None
    assert says(crew, line, 0, result(None)) is None
    assert crew.size == 1
    crew.fill()
    assert [one["worker"] for one in line.sent if one["do"] == "hire"] == [0, 1]


def test_a_machine_that_cannot_open_the_run_is_done_without_and_the_last_one_is_not(
    crew, line, site, tmp_path, told
):
    crew.serve(site, tmp_path / "chunks")
    confirms(crew, line, 0)
    assert says(crew, line, 0, answer(cannot_write)) is None
    assert (crew.size, len(told)) == (1, 1)
    confirms(crew, line, 1)
    with pytest.raises(StoreError) as caught:
        says(crew, line, 1, answer(cannot_write))
    assert caught.value.code == "disk-full"


def test_deaths_count_until_a_worker_process_has_opened_the_run(crew, line, site, tmp_path):
    """Of two worker processes, the sixth early death in a row is one too many."""
    crew.serve(site, tmp_path / "chunks")
    for number in range(1, 6):
        assert dies(crew, line, number) is None
        crew.fill()
    opens(crew, line, 0)
    for number in range(6, 11):
        assert dies(crew, line, number) is None
        crew.fill()
    with pytest.raises(ClusterError, match="6 worker processes in a row") as caught:
        dies(crew, line, 11)
    assert caught.value.code == "cluster-no-workers"


def test_the_death_of_one_that_had_a_chunk_is_not_early(crew, line, site, tmp_path):
    crew.serve(site, tmp_path / "chunks")
    for number in range(20):
        opens(crew, line, number)
        (worker,) = crew.free()
        crew.begin(worker, "{}", number)
        assert isinstance(dies(crew, line, number), Died)
        crew.fill()


def test_the_first_worker_process_has_its_time(crew, line, clock):
    clock.now += module.START_SECONDS
    assert crew.next(0) is None
    confirms(crew, line, 1)
    clock.now += 10 * module.START_SECONDS  # one is there, so the other may take its time
    assert crew.next(0) is None
    dies(crew, line, 1)
    clock.now += module.START_SECONDS
    assert crew.next(0) is None
    clock.now += 0.5
    with pytest.raises(ClusterError, match=r"no worker process for 300 seconds\. Wanted 2") as caught:
        crew.next(0)
    assert caught.value.code == "cluster-no-workers"


def test_a_missing_package_is_named_as_missing(crew, line):
    with pytest.raises(ClusterError, match=r"on host0 has numba \(none\)") as caught:
        confirms(crew, line, 0, numba="")
    assert caught.value.code == "cluster-version"


def test_a_proof_is_wanted_before_the_run_is_sent(crew, line, site, tmp_path):
    crew.serve(site, tmp_path / "chunks")
    line.ends[0] = WorkerEnd(b"another token")
    with pytest.raises(ClusterError) as caught:
        confirms(crew, line, 0)
    assert caught.value.code == "cluster-token"
    assert line.calls("open") == []
    assert [worker.step for worker in crew._workers.values()] == [Step.CONFIRM, Step.HELLO]
