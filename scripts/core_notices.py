"""Write the licenses of everything that is linked into the compiled core, for its wheels.

    python -m scripts.core_notices native/NOTICES

They come from the packages that the lock names, so this needs cargo and their sources.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_NAMES = ("LICEN", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT")
_METADATA = "cargo metadata --format-version 1 --locked --manifest-path native/Cargo.toml"


def main(path: Path) -> None:
    host = re.search("^host: (.+)$", _output("rustc -vV"), re.MULTILINE)
    assert host is not None
    metadata = json.loads(_output(f"{_METADATA} --filter-platform {host[1]}"))
    owners: dict[str, list[str]] = {}
    for package in sorted(_linked(metadata), key=lambda it: str(it["name"])):
        name = f"{package['name']} {package['version']} ({package['license']})"
        for text in _texts(package) or ["This package has no file with a license."]:
            owners.setdefault(text, []).append(name)
    parts = ["\n".join([*names, "", text, ""]) for text, names in owners.items()]
    path.write_text(f"{'=' * 80}\n".join(parts))


def _output(command: str) -> str:
    return subprocess.check_output(command.split(), text=True)


def _linked(metadata: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the packages that are linked, without those that only build or expand code."""
    packages = {each["id"]: each for each in metadata["packages"]}
    nodes = {each["id"]: each for each in metadata["resolve"]["nodes"]}
    seen, waiting = set[str](), [metadata["resolve"]["root"]]
    while waiting:
        current = waiting.pop()
        kinds = {kind for target in packages[current]["targets"] for kind in target["kind"]}
        if current in seen or "proc-macro" in kinds:
            continue
        seen.add(current)
        if packages[current]["source"] is not None:
            yield packages[current]
        waiting += [
            each["pkg"]
            for each in nodes[current]["deps"]
            if any(it["kind"] is None for it in each["dep_kinds"])
        ]


def _texts(package: dict[str, Any]) -> list[str]:
    folder = Path(package["manifest_path"]).parent
    files = sorted(it for it in folder.rglob("*") if it.name.upper().startswith(_NAMES))
    texts = (it.read_text(errors="replace").strip() for it in files if it.is_file())
    return [*dict.fromkeys(texts)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
