"""A message stays readable, however long the names in it are."""

from tallyveil.cli.frame.terminal import LONGEST_MESSAGE, say_error


def test_a_message_is_cut_where_nobody_would_read_on(capsys):
    say_error("config", "x" * (LONGEST_MESSAGE + 1234))
    said = capsys.readouterr().err
    assert "and 1,234 more characters." in said
    assert len(said) < LONGEST_MESSAGE + 200
