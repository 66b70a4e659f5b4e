"""The jobs that a process can run.

A worker claims only jobs in its catalog, by name and version. Jobs are passed in, or imported as
`module:function` when a backfill needs one. If a name cannot be resolved, the catalog keeps the
reason, and the ledger shows it in explanations of why nothing runs. The import is retried later,
because the module may have been deployed in the meantime.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterable
from types import ModuleType

from gapless.core.errors import UnknownJob
from gapless.core.similar import did_you_mean
from gapless.runtime.error_text import message_of, name_of
from gapless.runtime.job import Job

RETRY_SECONDS = 15.0  # between attempts to import a job
BUILT_IN = {
    "blocks": "gapless.blocks.job",
    "classify": "gapless.wallets.hook",
    "finish": "gapless.blocks.finish_job",
    "follow": "gapless.following.job",
    "wallets": "gapless.wallets.job",
}
"""Built-in jobs: name -> the module whose `job()` creates it."""


class Catalog:
    """Known jobs by name, and the reasons why others are unavailable."""

    def __init__(
        self,
        jobs: Iterable[Job] = (),
        *,
        importing: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs = {job.name: job for job in jobs}
        self._now = now
        self._try_again_at: dict[str, float] = {}
        self.importing = importing
        self.unresolved: dict[str, str] = {}

    def add(self, job: Job) -> None:
        self._jobs[job.name] = job
        self.unresolved.pop(job.name, None)
        self.unresolved.pop(versioned(job.name, job.version), None)

    def __getitem__(self, name: str) -> Job:
        return self._jobs[name]

    def resolve(self, wanted: Iterable[tuple[str, int]]) -> None:
        """Imports the jobs it can, and records for the others why not."""
        for name, version in wanted:
            if name not in self._jobs and self._now() >= self._try_again_at.get(name, 0.0):
                try:
                    self._jobs[name] = self._find(name)
                    self.unresolved.pop(name, None)
                except UnknownJob as error:
                    self.unresolved[name] = str(error)
                    self._try_again_at[name] = self._now() + RETRY_SECONDS
            known = self._jobs.get(name)
            if known is not None and known.version != version:
                reason = f"has version {known.version} of it, not {version}"
                self.unresolved[versioned(name, version)] = reason

    def reason_against(self, name: str, version: int) -> str | None:
        """Why this job cannot be run, if known."""
        return self.unresolved.get(name) or self.unresolved.get(versioned(name, version))

    def _find(self, name: str) -> Job:
        if not self.importing:
            raise UnknownJob("it runs only the jobs that were passed to it")
        return import_job(name)

    @property
    def known(self) -> tuple[tuple[str, int], ...]:
        return tuple((name, job.version) for name, job in self._jobs.items())


def versioned(name: str, version: int) -> str:
    """The name of a job that is known, but not in this version."""
    return f"{name}@{version}"


def import_job(name: str) -> Job:
    """The job at `module:function`, or a built-in one."""
    if name in BUILT_IN:
        built_in: Job = importlib.import_module(BUILT_IN[name]).job()
        return built_in
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise UnknownJob(f"`{name}` does not name a job", hint="write it as `module:function`")
    known = module in sys.modules
    try:
        return _job_of(_import(module), module, attribute)
    except UnknownJob:
        if not known:
            sys.modules.pop(module, None)  # so that the next attempt imports it afresh
        raise


def _job_of(found: object, module: str, attribute: str) -> Job:
    jobs = [name for name, each in vars(found).items() if isinstance(each, Job)]
    try:
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise UnknownJob(
            f"module `{module}` has no `{attribute}`",
            hint=did_you_mean(attribute, jobs)
            or "name a function that `@gapless.job(partitions=…)` decorates",
        ) from None
    if not isinstance(found, Job):
        raise UnknownJob(
            f"`{module}:{attribute}` is not a job",
            hint="decorate the function with `@gapless.job(partitions=…)`",
        )
    return found


def _import(module: str) -> ModuleType:
    importlib.invalidate_caches()  # folders may have changed since the last attempt
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UnknownJob(
            f"cannot import `{module}`: {error}",
            hint="run from the folder that holds it, or install it in this environment",
        ) from error
    except (Exception, SystemExit) as error:
        raise UnknownJob(
            f"importing `{module}` failed: {name_of(error)}: {message_of(error)}",
            hint=f"run `python -c 'import {module}'` to see where",
        ) from error
