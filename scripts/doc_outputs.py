"""Writes the outputs shown in the documentation anew, where they are out of date: `make docs`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.docs import pages
from tests.servers import PostgresServer


def refresh(page: Path, **environment: str) -> None:
    """Runs a page, and replaces each output that no longer is what the block before prints."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder:
        for block, printed in pages.Runner(Path(folder), **environment).results(page):
            if pages.normal(printed) != pages.normal(block.text):
                shown = f"```text output\n{block.text}```"
                text = text.replace(shown, f"```text output\n{printed.strip()}\n```", 1)
    if text != page.read_text():
        print(f"wrote {pages.name(page)}")
        page.write_text(text)


if __name__ == "__main__":
    with PostgresServer() as server:
        for page in pages.PAGES:
            if page == pages.POSTGRES_PAGE:
                refresh(page, GAPLESS_LEDGER=server.url())
            else:
                refresh(page)
