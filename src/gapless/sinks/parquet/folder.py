"""The folder of a Parquet sink, which one process at a time changes atomically.

    _gapless/manifest.json                               what is stored
    _gapless/lock                                        held by readers and writers
    <network>/<table>/<first>-<last>.<fence>.parquet     the data files
    <same name>.<generation>.staged                      a data file that is being added

A change first writes its files durably under their staged names. Then it replaces the manifest,
which is the commit. Finally it deletes superseded files and renames the staged ones. A process that
dies in between leaves a mark in the lock file, and the next writer first settles the folder: staged
files of the manifest's generation are committed and get their names, and those of any other
generation are deleted. A power failure may lose the mark, so opening a sink for writing always
settles the folder.

A file is deleted only if it is known to be obsolete: it is staged for another generation, or the
manifest says that its commit superseded it. Any other file that the manifest does not list is left
alone, because an older manifest may have been restored; `strays` reports it.

A reader changes nothing. It can read committed files under their staged names, and takes the lock
only if the lock file exists.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from gapless.core.errors import SinkUnusable
from gapless.schema import Schema
from gapless.sinks.parquet.manifest import ChainFiles, Manifest, decoded
from gapless.sinks.sink import Access
from gapless.sinks.write_turns import turn_to_write
from gapless.system import SYSTEM, System, sync_folder

_STAGED = re.compile(r"(\d+-\d+\.\d+\.parquet)\.(\d+)\.staged")
_UNSETTLED = b"unsettled"


class Folder:
    """The files of a sink, and the manifest that says which of them are part of it."""

    def __init__(self, path: Path, schema: Schema, access: Access, system: System = SYSTEM) -> None:
        self.path = path.absolute()  # a job may change the working directory
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
            missing = [it for it in (self._own, *self._own.parents) if not it.exists()]
            self._own.mkdir(parents=True, exist_ok=True)
            for folder in missing:
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
        """Lock the folder and yield its manifest. For a writer, settle the folder first."""
        lock = self._opened_lock()
        if lock is None:
            yield self.manifest()
            return
        writes = self._access.writes
        turn: AbstractContextManager[None] = turn_to_write(self.path) if writes else nullcontext()
        with turn:
            fcntl.flock(lock, fcntl.LOCK_EX if writes else fcntl.LOCK_SH)
            try:
                if writes and os.pread(lock, 1, 0):
                    self._settle()
                yield self.manifest()
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)

    def manifest(self) -> Manifest:
        """Return the current manifest, or create one.

        Read the file again only if it was replaced. Until then, keep the file that was read open,
        so that no other file can get its inode.
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

    def chain(self, manifest: Manifest, chain_id: int) -> ChainFiles:
        """Return the manifest's entry for a chain; the schema names the folder of a new one."""
        return manifest.chains.get(chain_id) or ChainFiles(self.schema.chain_name(chain_id))

    def file(self, name: str) -> Path:
        """Return the path of a file that the manifest lists."""
        if not self._access.writes and self._read is not None:
            staged = self._staged(name, self._read[1].generation)
            if staged.exists():  # a writer died after its commit
                return staged
        return self.path / name

    def strays(self) -> list[str]:
        """Return the data files that the manifest does not list."""
        manifest = self.manifest()
        listed = manifest.names()
        listed |= {self._relative(self._staged(name, manifest.generation)) for name in listed}
        found = (self._relative(path) for path in self._files())
        suffixes = (".parquet", ".staged")
        return sorted(name for name in found if name.endswith(suffixes) and name not in listed)

    @contextmanager
    def change(self) -> Iterator[None]:
        """Enclose staging and committing files. The folder must be held."""
        assert self._lock is not None
        os.pwrite(self._lock, _UNSETTLED, 0)
        try:
            yield
        except BaseException:
            self._settle()
            raise
        os.ftruncate(self._lock, 0)

    def stage(self, name: str, generation: int) -> Path:
        """Return the path to write a file to that the commit of a generation will add."""
        path = self._staged(name, generation)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def commit(self, manifest: Manifest, added: Collection[str]) -> None:
        """Commit the manifest with all of the added files, or none of them."""
        parents = {(self.path / name).parent for name in added}
        for folder in sorted(parents | {parent.parent for parent in parents} | {self.path}):
            sync_folder(folder)
        self._replace(manifest)
        for name in {*added}:
            self._staged(name, manifest.generation).rename(self.path / name)
        for name in {*manifest.superseded} - {*added}:
            path = self.path / name
            with suppress(
                OSError
            ):  # it is no longer part of the sink: at worst, it remains as a stray
                path.unlink(missing_ok=True)
            parents.add(path.parent)
        for (
            folder
        ) in parents:  # the next manifest no longer lists what this one superseded or staged
            if folder.exists():
                sync_folder(folder)

    def _replace(self, manifest: Manifest) -> None:
        new_path = self._own / "manifest.json.new"
        with new_path.open("wb") as file:
            file.write(msgspec.json.encode(manifest))
            file.flush()
            os.fsync(file.fileno())
        new_path.rename(self._own / "manifest.json")
        sync_folder(self._own)

    def _settle(self) -> None:
        """Complete the latest commit, and delete files of interrupted changes."""
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
        """Yield all files in the folders of tables."""
        for name in self.schema:
            for folder in self.path.glob(f"*/{name}/"):
                yield from [*folder.iterdir()]

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()

    def _staged(self, name: str, generation: int) -> Path:
        return self.path / f"{name}.{generation}.staged"

    def _opened_lock(self) -> int | None:
        """Open the lock file. A reader does not create it."""
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
        if (
            others and not (self._own / "manifest.json").exists()
        ):  # another process may have just created it
            raise SinkUnusable(
                f"`{self.path}` is not empty and not a Gapless sink", hint="name a new folder"
            )
