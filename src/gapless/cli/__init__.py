"""The command line. Thin: commands ask the runtime, `render` makes text of the answers."""

from gapless.cli.app import main

__all__ = ["main"]
