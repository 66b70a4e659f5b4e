"""The folder of a Parquet sink, changed by one process at a time and all at once.

    _gapless/manifest.json                               what is stored
    _gapless/lock                                        held by whoever reads or changes
    <network>/<table>/<first>-<last>.<fence>.parquet     the files that people read
    <same name>.<generation>.staged                      one that is on its way

A change first makes its files under their staged names, durably; then it replaces the manifest,
which is the commit; then superseded files disappear and staged ones get their names. Whoever dies
on the way leaves a mark in the lock file, and the next one puts the folder in order before anything
else: of staged files, those of the manifest's own generation are committed, all others are rubbish.
The mark may be lost with the machine's power, so opening a sink puts it in order in any case.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import msgspec

from gapless.core.errors import SinkUnusable
from gapless.schema import TABLES
from gapless.sinks.parquet.files import sync_folder
from gapless.sinks.parquet.manifest import Manifest, decoded

_NAME = re.compile(r"(\d+-\d+\.\d+\.parquet)(?:\.(\d+)\.staged)?")
_UNSETTLED = b"unsettled"


class Folder:
    """The files of a sink, and the manifest that says which of them count."""

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path = path
        self._own = path / "_gapless"
        self._read: tuple[BinaryIO, Manifest] | None = None
        if not (self._own / "manifest.json").exists():
            if not create:
                raise SinkUnusable(f"there is no sink at `{path}`", hint="check the path")
            self._refuse_others_files()
            made = [it for it in (self._own, *self._own.parents) if not it.exists()]
            self._own.mkdir(parents=True, exist_ok=True)
            for folder in made:
                sync_folder(folder.parent)
        self._lock = os.open(self._own / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with self.held():
                self._settle()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._forget()
        os.close(self._lock)

    @contextmanager
    def held(self) -> Iterator[Manifest]:
        """The manifest, which nobody else changes meanwhile; and the folder in order."""
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            if os.pread(self._lock, 1, 0):
                self._settle()
            yield self.manifest()
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def manifest(self) -> Manifest:
        """The manifest as it is now, or a new one.

        It is read again only if it is another file. The one that was read stays open until then:
        so long, no other file can get its inode.
        """
        path = self._own / "manifest.json"
        if not path.exists():
            self._replace(Manifest(str(uuid4())))
        if self._read is None or not os.path.samestat(
            os.fstat(self._read[0].fileno()), path.stat()
        ):
            self._forget()
            with ExitStack() as opened:
                file = opened.enter_context(path.open("rb"))
                self._read = file, decoded(path, file.read())
                opened.pop_all()
        return self._read[1]

    def _forget(self) -> None:
        if self._read is not None:
            self._read[0].close()
            self._read = None

    @contextmanager
    def change(self) -> Iterator[None]:
        """Inside `held`: around all that stages files and commits them."""
        os.pwrite(self._lock, _UNSETTLED, 0)
        try:
            yield
        except BaseException:
            self._settle()
            raise
        os.ftruncate(self._lock, 0)

    def staged(self, name: str, generation: int) -> Path:
        """Where a file is written that the commit of a generation brings."""
        path = self.path / f"{name}.{generation}.staged"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def commit(self, manifest: Manifest, come: Iterable[str], go: Iterable[str]) -> None:
        """Makes the manifest's word true: of the files by these names, all or none."""
        come = set(come)
        parents = {(self.path / name).parent for name in come}
        for folder in sorted(parents | {parent.parent for parent in parents} | {self.path}):
            sync_folder(folder)
        self._replace(manifest)
        for name in set(go) - come:
            (self.path / name).unlink(missing_ok=True)
        for name in come:
            self.staged(name, manifest.generation).rename(self.path / name)
        for folder in parents:  # before another generation makes these look like rubbish
            sync_folder(folder)

    def _replace(self, manifest: Manifest) -> None:
        beside = self._own / "manifest.json.new"
        with beside.open("wb") as file:
            file.write(msgspec.json.encode(manifest))
            file.flush()
            os.fsync(file.fileno())
        beside.rename(self._own / "manifest.json")
        sync_folder(self._own)

    def _settle(self) -> None:
        """Puts the folder in order: exactly the files of the manifest, under their names."""
        manifest = self.manifest()
        wanted = {
            f"{chain.folder}/{entry.name}"
            for chain in manifest.chains.values()
            for entry in chain.entries()
        }
        for folder in (found for table in TABLES for found in self.path.glob(f"*/{table.name}/")):
            # Staged files behind the plain ones, which they may replace.
            for path in sorted(folder.iterdir(), key=lambda it: (it.suffix, it.name)):
                name = _NAME.fullmatch(path.name)
                if name is None:
                    continue
                final = folder / name[1]
                known = str(final.relative_to(self.path)) in wanted
                if not known or name[2] not in (None, str(manifest.generation)):
                    path.unlink()
                elif name[2] is not None:
                    path.rename(final)
        os.ftruncate(self._lock, 0)

    def _refuse_others_files(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise SinkUnusable(f"`{self.path}` is no folder", hint="name a new folder")
        others = [it for it in self.path.glob("*") if it != self._own]
        if others and not (self._own / "manifest.json").exists():  # made by another just now
            raise SinkUnusable(
                f"`{self.path}` is not empty, and no sink of Gapless", hint="name a new folder"
            )
