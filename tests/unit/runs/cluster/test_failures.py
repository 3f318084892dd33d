"""Errors of ours travel whole; of other exceptions, no value travels."""

import json

import pytest

from tallyveil.errors import ConstraintError, StoreError
from tallyveil.runs.cluster.failures import UnwrittenError, WorkerDefectError, answer, result_of

CANARY = "99173310"


def raising(error):
    def work():
        raise error

    return work


def test_a_result_travels():
    assert result_of(answer(lambda: {"a": [1, "two"]})) == {"a": [1, "two"]}


def test_an_error_of_ours_keeps_class_message_and_code():
    with pytest.raises(ConstraintError, match="the sum") as caught:
        result_of(answer(raising(ConstraintError("the sum is wrong.", code="bounds-broken"))))
    assert caught.value.code == "bounds-broken"


def test_a_class_that_is_derived_elsewhere_becomes_its_base():
    class NearerError(StoreError):
        pass

    with pytest.raises(StoreError) as caught:
        result_of(answer(raising(NearerError("gone."))))
    assert type(caught.value) is StoreError


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), UnwrittenError(StoreError("x"))])
def test_failures_of_a_machine_are_told_apart(error):
    with pytest.raises(UnwrittenError, match="a result was not written"):
        result_of(answer(raising(error)))


def test_a_failure_of_a_machine_says_what_the_system_said():
    with pytest.raises(UnwrittenError) as caught:
        result_of(answer(raising(PermissionError(13, "Permission denied"))))
    assert "could not read or write a file: PermissionError, Permission denied." in str(caught.value.cause)
    assert caught.value.cause.code == "write-failed"
    error = StoreError("the disk is full.", code="disk-full")
    with pytest.raises(UnwrittenError) as caught:
        result_of(answer(raising(UnwrittenError(error))))
    assert (str(caught.value.cause), caught.value.cause.code) == (str(error), "disk-full")


def test_a_path_of_the_system_is_not_said():
    assert CANARY not in answer(raising(FileNotFoundError(2, "No such file", CANARY)))


def test_a_defect_is_told_without_its_words():
    text = answer(raising(KeyError(CANARY)))
    assert CANARY not in text
    with pytest.raises(
        WorkerDefectError, match=r"^a worker process met KeyError; [^$]*test_failures.py:\d+ in work"
    ):
        result_of(text)


def test_a_cause_is_not_said():
    error = ConstraintError("the sum is wrong.")
    error.__cause__ = KeyError(CANARY)
    assert CANARY not in answer(raising(error))
    assert set(json.loads(answer(raising(error)))["refused"]) == {"kind", "message", "code"}


def test_the_end_of_the_process_is_not_held_back():
    with pytest.raises(SystemExit):
        answer(raising(SystemExit(3)))
