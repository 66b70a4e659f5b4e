"""The folder of a Parquet sink, changed by one process at a time and all at once.

    _gapless/manifest.json                               what is stored
    _gapless/lock                                        held by whoever reads or changes
    <network>/<table>/<first>-<last>.<fence>.parquet     the files that people read
    <same name>.<generation>.staged                      one that is on its way

A change first makes its files under their staged names, durably; then it replaces the manifest,
which is the commit; then superseded files disappear and staged ones get their names. Whoever dies
on the way leaves a mark in the lock file, and the next writer puts the folder in order before
anything else: of staged files, those of the manifest's own generation are committed, and those of
other generations never will be. The mark may be lost with the machine's power, so a writer that
opens a sink puts it in order in any case.

A file is deleted only if it is known to be worthless: it is staged for another generation, or the
manifest says that its commit superseded it. Any other file that the manifest does not list is left
alone, because the manifest may be an old one that was restored; `strays` reports it.

A reader changes nothing. It finds committed files under their staged names, if need be, and takes
the lock only if there is one.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from gapless.core.errors import SinkUnusable
from gapless.schema import Schema
from gapless.sinks.parquet.files import sync_folder
from gapless.sinks.parquet.manifest import Chain, Manifest, decoded
from gapless.sinks.sink import Access
from gapless.system import SYSTEM, System

_STAGED = re.compile(r"(\d+-\d+\.\d+\.parquet)\.(\d+)\.staged")
_UNSETTLED = b"unsettled"


class Folder:
    """The files of a sink, and the manifest that says which of them count."""

    def __init__(self, path: Path, schema: Schema, access: Access, system: System = SYSTEM) -> None:
        self.path = path.absolute()  # a job may change the folder of its process
        self.schema = schema
        self._system = system
        self._access = access
        self._own = self.path / "_gapless"
        self._read: tuple[BinaryIO, Manifest] | None = None
        self._lock: int | None = None
        if not (self._own / "manifest.json").exists():
            if access is not Access.CREATE:
                raise SinkUnusable(f"there is no sink at `{path}`", hint="check the path")
            self._refuse_others_files()
            made = [it for it in (self._own, *self._own.parents) if not it.exists()]
            self._own.mkdir(parents=True, exist_ok=True)
            for folder in made:
                sync_folder(folder.parent)
        try:
            with self.held():
                if access.writes:
                    self._settle()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._forget()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def held(self) -> Iterator[Manifest]:
        """The manifest, which nobody else changes meanwhile; for a writer, the folder in order."""
        lock = self._opened_lock()
        if lock is None:
            yield self.manifest()
            return
        fcntl.flock(lock, fcntl.LOCK_EX if self._access.writes else fcntl.LOCK_SH)
        try:
            if self._access.writes and os.pread(lock, 1, 0):
                self._settle()
            yield self.manifest()
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)

    def manifest(self) -> Manifest:
        """The manifest as it is now, or a new one.

        It is read again only if it is another file. The one that was read stays open until then:
        so long, no other file can get its inode.
        """
        path = self._own / "manifest.json"
        if self._access is Access.CREATE and not path.exists():
            self._replace(Manifest(self._system.uuid()))
        if self._read is None or not os.path.samestat(
            os.fstat(self._read[0].fileno()), path.stat()
        ):
            self._forget()
            with ExitStack() as opened:
                file = opened.enter_context(path.open("rb"))
                self._read = file, decoded(path, file.read())
                opened.pop_all()
        return self._read[1]

    def chain(self, manifest: Manifest, chain_id: int) -> Chain:
        """What is known of a chain; a new one is named by the schema."""
        return manifest.chains.get(chain_id) or Chain(self.schema.chain_name(chain_id))

    def file(self, name: str) -> Path:
        """Where a file is that the manifest lists."""
        if not self._access.writes and self._read is not None:
            staged = self._staged(name, self._read[1].generation)
            if staged.exists():  # a writer died after its commit
                return staged
        return self.path / name

    def strays(self) -> list[str]:
        """The data files that the manifest does not list."""
        manifest = self.manifest()
        listed = manifest.names()
        listed |= {self._relative(self._staged(name, manifest.generation)) for name in listed}
        found = (self._relative(path) for path in self._files())
        suffixes = (".parquet", ".staged")
        return sorted(name for name in found if name.endswith(suffixes) and name not in listed)

    @contextmanager
    def change(self) -> Iterator[None]:
        """Inside `held`: around all that stages files and commits them."""
        assert self._lock is not None
        os.pwrite(self._lock, _UNSETTLED, 0)
        try:
            yield
        except BaseException:
            self._settle()
            raise
        os.ftruncate(self._lock, 0)

    def stage(self, name: str, generation: int) -> Path:
        """Where to write a file that the commit of a generation brings."""
        path = self._staged(name, generation)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def commit(self, manifest: Manifest, come: Collection[str]) -> None:
        """Makes the manifest's word true: of the files by these names, all or none."""
        parents = {(self.path / name).parent for name in come}
        for folder in sorted(parents | {parent.parent for parent in parents} | {self.path}):
            sync_folder(folder)
        self._replace(manifest)
        for name in {*come}:
            self._staged(name, manifest.generation).rename(self.path / name)
        for name in {*manifest.superseded} - {*come}:
            path = self.path / name
            with suppress(OSError):  # it does not count any more: at worst, it is left as a stray
                path.unlink(missing_ok=True)
            parents.add(path.parent)
        for folder in parents:  # the next manifest does not tell what this one superseded or staged
            if folder.exists():
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
        """Brings the latest commit to its end, and removes what others have left behind."""
        assert self._lock is not None
        manifest = self.manifest()
        listed = manifest.names()
        for name in {*manifest.superseded} - listed:
            with suppress(OSError):
                (self.path / name).unlink(missing_ok=True)
        for path in self._files():
            if staged := _STAGED.fullmatch(path.name):
                final = path.with_name(staged[1])
                if staged[2] != str(manifest.generation):
                    path.unlink()
                elif self._relative(final) in listed:
                    path.rename(final)
        os.ftruncate(self._lock, 0)

    def _files(self) -> Iterator[Path]:
        """All files where the files of tables are."""
        for name in self.schema:
            for folder in self.path.glob(f"*/{name}/"):
                yield from [*folder.iterdir()]

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()

    def _staged(self, name: str, generation: int) -> Path:
        return self.path / f"{name}.{generation}.staged"

    def _opened_lock(self) -> int | None:
        """The lock file; a reader makes none."""
        if self._lock is None:
            path = self._own / "lock"
            if self._access.writes:
                self._lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            elif path.exists():
                self._lock = os.open(path, os.O_RDONLY)
        return self._lock

    def _forget(self) -> None:
        if self._read is not None:
            self._read[0].close()
            self._read = None

    def _refuse_others_files(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise SinkUnusable(f"`{self.path}` is not a folder", hint="name a new folder")
        others = [it for it in self.path.glob("*") if it != self._own]
        if others and not (self._own / "manifest.json").exists():  # made by another just now
            raise SinkUnusable(
                f"`{self.path}` is not empty and not a Gapless sink", hint="name a new folder"
            )
