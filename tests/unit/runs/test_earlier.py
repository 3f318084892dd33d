"""Work that draws nothing: its name follows from public files, and it goes on only where it began."""

import json
from pathlib import Path

import pytest

from tallyveil.errors import StoreError
from tallyveil.runs.key_file import (
    Earlier,
    key_file,
    public_secrets,
    refuse_other_work,
    require_same_work,
    work_file,
)

EARLIER = Earlier("0123456789abcdef", b"{}\n", protected=True)


def stored(secrets) -> bytes:
    return json.dumps(work_file(secrets, EARLIER), indent=2).encode()


def test_its_name_follows_from_files_and_settings_alone():
    one, again = (public_secrets(EARLIER, b"files", b"settings") for _ in range(2))
    assert one.run_id == again.run_id == "1b5b609ea219cdad"  # also in another version
    others = [public_secrets(EARLIER, b"files", b"other"), public_secrets(EARLIER, b"other", b"settings")]
    assert len({one.run_id, *(other.run_id for other in others)}) == 3


def test_it_is_protected_as_the_run_that_drew():
    assert public_secrets(EARLIER, b"", b"").protected
    unprotected = public_secrets(Earlier("r", b"", protected=False), b"", b"")
    assert unprotected.file_tags()["protected"].startswith("false")


def test_it_goes_on_only_with_what_it_began_with():
    secrets = public_secrets(EARLIER, b"files", b"settings")
    wanted = work_file(secrets, EARLIER)
    require_same_work(Path("out"), stored(secrets), wanted)
    for other in (stored(public_secrets(EARLIER, b"files", b"other")), b"", b"{}"):
        with pytest.raises(StoreError) as caught:
            require_same_work(Path("out"), other, wanted)
        assert caught.value.code == "resume-changed"


def test_it_is_told_apart_from_a_run_that_may_have_spent():
    secrets = public_secrets(EARLIER, b"files", b"settings")
    key = json.dumps(key_file(secrets), indent=2).encode()
    with pytest.raises(StoreError, match="may have spent") as caught:
        require_same_work(Path("out"), key, work_file(secrets, EARLIER))
    assert caught.value.code == "resume-changed"
    for text in (key, b"", b"[]", b"{", b"[" * 10**5):
        refuse_other_work(Path("out"), text)
    with pytest.raises(
        StoreError, match="estimate from the measurements of run '0123456789abcdef'"
    ) as caught:
        refuse_other_work(Path("out"), stored(secrets))
    assert caught.value.code == "resume-changed"
