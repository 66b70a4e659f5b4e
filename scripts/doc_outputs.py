"""Updates outdated outputs in the documentation: `make docs`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.docs import pages
from tests.servers import PostgresServer


def refresh(page: Path, node_port: str, **environment: str) -> None:
    """Runs a page and replaces each output that differs from what its commands print."""
    text = page.read_text()
    with (
        tempfile.TemporaryDirectory() as folder,
        pages.Runner(Path(folder), node_port, **environment) as runner,
    ):
        for block, printed in runner.results(page):
            if pages.normal(printed) != pages.normal(block.text):
                shown = f"```text output\n{block.text}```"
                text = text.replace(shown, f"```text output\n{printed.strip()}\n```", 1)
    if text != page.read_text():
        print(f"wrote {pages.name(page)}")
        page.write_text(text)


if __name__ == "__main__":
    chosen = [Path(each).resolve() for each in sys.argv[1:]] or pages.PAGES
    with PostgresServer() as server, pages.honest_node() as port:
        for page in chosen:
            if page in pages.POSTGRES_PAGES:
                refresh(page, port, GAPLESS_LEDGER=server.url())
            else:
                refresh(page, port)
