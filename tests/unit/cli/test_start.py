"""Ctrl-C ends every command with one sentence and exit code 130, whatever it is doing."""

import signal
import subprocess
import sys
import time

import pytest
from tests.samples import nightly

from tallyveil.cli.start import sentence

BEGIN = "import sys; sys.argv[0] = 'tallyveil'; from tallyveil.cli.start import main; main()"
PATCHED = """
import sys, time
import tallyveil.cli.main
def work():
    {work}
tallyveil.cli.main.main = work
from tallyveil.cli.start import main
main()
"""
WORK = {
    "python": "sys.stdout.write('go\\n'); sys.stdout.flush(); time.sleep(60)",
    "swallowed": """
    import contextlib
    sys.stdout.write('go\\n'); sys.stdout.flush()
    try:
        time.sleep(60)
    except BaseException:
        raise ValueError('what a callback makes of it') from None
    """,
    "errors told by compiled code": """
    from tallyveil.cli.frame.terminal import compiled_libraries_silenced
    sys.stdout.write('go\\n'); sys.stdout.flush()
    try:
        with compiled_libraries_silenced():
            time.sleep(60)
    except BaseException as error:
        sys.excepthook(ImportError, ImportError('broken off'), error.__traceback__)
    """,
    "a callback that Python calls": """
    import weakref
    class Thing:
        pass
    def callback(reference):
        sys.stdout.write('go\\n'); sys.stdout.flush()
        time.sleep(60)
    thing = Thing()
    reference = weakref.ref(thing, callback)
    del thing
    time.sleep(60)
    """,
    "threads": """
    from concurrent.futures import ThreadPoolExecutor
    sys.stdout.write('go\\n'); sys.stdout.flush()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(time.sleep, [60, 60]))
    """,
    "compiled": """
    from numba import njit
    @njit(nogil=True)
    def sums(n):
        total = 0.0
        for i in range(n):
            total += (i % 7) ** 0.5
        return total
    sums(3)
    sys.stdout.write('go\\n'); sys.stdout.flush()
    sums(10**12)
    """,
    "polars": """
    import polars as pl
    frame = pl.LazyFrame({'a': range(60_000)})
    sys.stdout.write('go\\n'); sys.stdout.flush()
    frame.join(frame, how='cross').select((pl.col('a') * pl.col('a_right')).sort().sum()).collect()
    """,
}


@pytest.mark.parametrize("work", [nightly(work) if work in ("compiled", "polars") else work for work in WORK])
def test_at_work(work):
    process = subprocess.Popen(
        [sys.executable, "-c", PATCHED.format(work=WORK[work]), "run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said == f"\n{sentence(['run'])}\n"


@pytest.mark.parametrize("seconds", [0.15, 0.3])
def test_at_the_start(seconds, small_release, tmp_path):
    """While modules are loaded, whichever they are."""
    arguments = ["run", str(small_release), "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        [sys.executable, "-c", READY + BEGIN, *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said.strip()) == (130, sentence(arguments))


def test_before_the_answering_thread_runs():
    begin = "import tallyveil.cli.start as start, os, signal, threading\n"
    begin += "threading.Thread = lambda **_: os.kill(os.getpid(), signal.SIGINT)\nstart.main()"
    ended = subprocess.run([sys.executable, "-c", begin], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "")


def test_unused_objects_are_searched_for_rarely_and_not_at_the_end():
    work = """
    import gc, os
    class Unused:
        def __del__(self):
            os.write(1, b"found ")
    unused = Unused()
    unused.itself = unused
    del unused
    kept = [[] for _ in range({made})]
    """
    for made, found in ((100_000, ""), (1_100_000, "found ")):
        begin = PATCHED.format(work=work.format(made=made))
        ended = subprocess.run([sys.executable, "-c", begin], capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, found, "")


READY = "import tallyveil.cli.start, signal; "
READY += "handler = signal.signal; signal.signal = lambda *a: (handler(*a), print('go', flush=True)); "


@pytest.mark.parametrize(
    ("arguments", "resumed"),
    [
        (["run", "release.toml"], True),
        (["demo"], True),
        (["safetab", "households", "p", "d"], True),
        (["subspace", "release", "t"], True),
        (["measurements", "import", "files"], True),
        (["measurements", "export", "folder"], False),
        (["copy", "release", "s3://bucket/there"], True),
        (["safetab", "validate"], False),
        (["subspace", "diagnose"], False),
        (["spine", "run"], False),
        (["plan", "run"], False),
        (["evaluate"], False),
        ([], False),
    ],
)
def test_only_a_run_goes_on(arguments, resumed):
    assert ("goes on" in sentence(arguments)) == resumed
    assert ("spends nothing twice" in sentence(arguments)) == resumed


def test_the_command_is_a_module():
    ended = subprocess.run(
        [sys.executable, "-m", "tallyveil", "run", "--nonsense"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "Usage: tallyveil run" in ended.stderr
