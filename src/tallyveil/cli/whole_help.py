"""Help that shows every word: the first paragraph of every command, whatever the width of the terminal."""

from typing import Any

import typer.core


class WholeHelp(typer.core.TyperGroup):
    """A group of commands whose list cuts no sentence short."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write every command with the first paragraph of its help."""
        commands = [self.get_command(ctx, name) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (str(one.name), " ".join(str(one.help).partition("\n\n")[0].split()))
                    for one in commands
                    if one
                ]
            )
