"""Help that lists every command with the whole first paragraph of its help, however narrow the terminal is."""

from typing import Any

import typer.core


class WholeHelp(typer.core.TyperGroup):
    """A group of commands whose list does not shorten the help of a command."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with the first paragraph of its help."""
        commands = [self.get_command(ctx, name) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (str(one.name), " ".join(str(one.help).partition("\n\n")[0].split()))
                    for one in commands
                    if one
                ]
            )
