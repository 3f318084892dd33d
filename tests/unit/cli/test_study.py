"""`tallyveil study` where the studies are not installed beside the library."""


def test_without_the_studies_the_command_says_what_to_install(command, monkeypatch, tmp_path):
    monkeypatch.setattr("tallyveil.cli.study.STUDIES", "tallyveil_nowhere")
    said = command("study", "safetab", "--out", tmp_path / "out", code=2)
    assert "[studies-missing]" in said
    assert not (tmp_path / "out").exists()
