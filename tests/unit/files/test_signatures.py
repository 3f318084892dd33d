"""What the signature beside a file shows: whose key signed it, that there is none, or that it does not fit."""

import pytest
from tests.signing import PLACES, armoured, blob_of, misfits, sign

from tallyveil.files.signatures import signature_of, signature_path


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text("{}")
    return path


def test_a_file_without_a_signature_is_unsigned(file):
    assert str(signature_of(file)) == "unsigned"
    assert (
        signature_of(file).sentence("manifest.json", "this page was drawn")
        == "When this page was drawn, nobody had signed the list of the published files (manifest.json)."
    )


@pytest.mark.parametrize("digest", ["sha512", "sha256"])
def test_a_signed_file_says_the_fingerprint_of_the_key_and_not_whose_it_is(file, digest):
    fingerprint, blob = blob_of(b"{}", digest=digest)
    signature_path(file).write_text(armoured(blob))
    assert str(signature_of(file)) == f"signed by {fingerprint}"
    assert signature_of(file).sentence("manifest.json", "this page was drawn").endswith("does not say.")
    assert sign(file, key=2) != fingerprint
    assert str(signature_of(file)) != f"signed by {fingerprint}"


def test_a_signature_does_not_fit_an_edited_file(file):
    sign(file)
    file.write_text("{} ")
    assert str(signature_of(file)) == "signature does not fit"


def test_what_is_no_signature_does_not_fit(file):
    for name, content in misfits(b"{}").items():
        signature_path(file).write_bytes(content)
        assert str(signature_of(file)) == "signature does not fit", name


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_read_from_what_is_no_file(file, place):
    PLACES[place](signature_path(file))
    assert str(signature_of(file)) == "signature does not fit"


def test_a_signature_without_its_file_does_not_fit(file):
    sign(file)
    file.unlink()
    assert str(signature_of(file)) == "signature does not fit"
