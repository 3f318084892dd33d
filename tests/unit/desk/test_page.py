"""The page of the desk is given to who has its address, and to nobody else."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.registers import CANARY, write_register

from tallyveil.desk.page import served_desk


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    write_register(tmp_path, 300)
    with served_desk(tmp_path) as address:
        yield address


def asked(address: str, path: str, body: object = None, **headers: str) -> tuple[int, str, dict[str, str]]:
    parts = urlsplit(address)
    line = HTTPConnection(parts.hostname or "", parts.port or 0, timeout=30)
    text = None if body is None else body if isinstance(body, str) else json.dumps(body)
    line.request("GET" if text is None else "POST", path, text, headers)
    answer = line.getresponse()
    return answer.status, answer.read().decode(), dict(answer.getheaders())


def test_only_the_secret_path_is_answered(address: str) -> None:
    parts = urlsplit(address)
    origin = {"Origin": f"http://{parts.netloc}"}
    status, text, headers = asked(address, parts.path)
    assert status == 200
    assert "Desk" in text
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert asked(address, "/")[0] == 404
    assert asked(address, "/index.html")[0] == 404
    assert asked(address, parts.path[:-2] + "x/")[0] == 404
    question = {"ask": "view"}
    assert asked(address, f"{parts.path}ask", question, **origin)[0] == 200
    assert asked(address, "/ask", question, **origin)[0] == 404
    assert asked(address, f"{parts.path}ask", question)[0] == 421
    assert asked(address, f"{parts.path}ask", question, Origin="http://elsewhere.example")[0] == 421
    assert asked(address, f"{parts.path}ask", "no json", **origin)[0] == 400
    many = {"Content-Length": str((1 << 20) + 1)}
    assert asked(address, f"{parts.path}ask", "", **origin, **many)[0] == 413


def test_answers_are_taken_and_errors_are_said(address: str, tmp_path: Path, capfd) -> None:
    parts = urlsplit(address)

    def ask(**question: object) -> dict:
        origin = f"http://{parts.netloc}"
        return json.loads(asked(address, f"{parts.path}ask", question, Origin=origin)[1])

    assert [step["name"] for step in ask(ask="view")["view"]["steps"]] == ["records"]
    answer = ask(ask="take", step="records", answers={"file": "persons.csv"})
    assert [step["name"] for step in answer["view"]["steps"]] == ["records", "areas"]
    assert CANARY not in json.dumps(answer)
    assert "does not know" in ask(ask="nothing")["errors"][0]
    assert "no step" in ask(ask="take", step="x")["errors"][0]
    assert "Choose" in ask(ask="write")["problems"][0]
    assert "Wählen Sie" in ask(ask="write", language="de")["problems"][0]
    assert (tmp_path / "desk.json").is_file()
    said = capfd.readouterr()
    assert said.out + said.err == ""
