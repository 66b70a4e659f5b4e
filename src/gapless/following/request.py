"""Builds and validates the request of a follow, from options or from the configuration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from gapless.blocks.request import FetchOptions, build_request
from gapless.blocks.targets import Targets
from gapless.config import Config, FollowSettings
from gapless.core.errors import BadSelector
from gapless.core.heights import Heights, Moment
from gapless.following.creation import FollowRequest

_EVERYTHING = "0:latest"  # a fetch needs heights; a follow has a start instead


def build_follow(
    config: Config,
    network: str,
    rpcs: Sequence[str],
    target: str | None,
    start: str | int | None,
    options: FetchOptions,
    name: str | None = None,
) -> tuple[FollowRequest, Targets]:
    """Builds the request and validates it before any node is contacted."""
    request, targets = build_request(
        config, network, _EVERYTHING, rpcs, target, options, detached=True
    )
    chosen = name or _name(request.network.name, request.sink)
    return FollowRequest(chosen, request, _start(start)), targets


def configured(config: Config, name: str, settings: FollowSettings) -> FollowRequest:
    """The request of a follow that the configuration names."""
    options = FetchOptions(datasets=settings.datasets, verify=settings.verify)
    request, _ = build_follow(
        config, settings.network, settings.endpoints, settings.to, settings.start, options, name
    )
    return request


def _start(text: str | int | None) -> int | Moment | None:
    if text is None:
        return None
    text = str(text)
    if not text[:1].isdigit():
        raise BadSelector(
            f"`{text}` is neither a height nor a date",
            hint="write `18000000`, `18M` or `2024-01-31`",
        )
    found = Heights.parse(text).first
    if ":" in re.sub(r"T\d\d:\d\d(:\d\d)?", "", text):
        raise BadSelector(
            f"`{text}` is a range", hint="give the first block or day only: a follow has no end"
        )
    return found


def _name(network: str, sink: str) -> str:
    """A name that a person recognises: the network, and the last part of the sink's name."""
    stem = PurePath(sink.rstrip("/")).stem
    return re.sub(r"[^A-Za-z0-9_-]+", "-", f"{network}-{stem}").strip("-")[:40]
