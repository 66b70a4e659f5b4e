"""Environment variables: each corresponds to a key of the file and overrides it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gapless.config.settings import Config
from gapless.core.durations import parse_duration
from gapless.core.errors import UsageError


def overridden(config: Config, environment: Mapping[str, str]) -> Config:
    """Applies the environment variables to a configuration."""
    changed: dict[str, dict[str, Any]] = {}
    for variable, (section, key, read) in VARIABLES.items():
        if text := environment.get(variable, "").strip():
            changed.setdefault(section, {}).setdefault(key, read(variable, text))
    whole = changed.pop("", {})
    for section, keys in changed.items():
        whole[section] = msgspec.structs.replace(getattr(config, section), **keys)
    return msgspec.structs.replace(config, **whole)


def _text(_variable: str, text: str) -> str:
    return text


def _duration(variable: str, text: str) -> float:
    try:
        return parse_duration(text)
    except UsageError as error:
        raise UsageError(f"`{variable}`: {error}", hint=error.hint) from None


def _durations(variable: str, text: str) -> tuple[float, ...]:
    return tuple(_duration(variable, each) for each in text.split(","))


def _whole_number(variable: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text):
        raise UsageError(f"`{variable}` is `{text}`, which is not a whole number")
    return int(text)


def _fraction(variable: str, text: str) -> float:
    if not re.fullmatch(r"\d{1,18}(\.\d*)?|\.\d+", text):
        raise UsageError(f"`{variable}` is `{text}`, which is not a number")
    return float(text)


VARIABLES: dict[str, tuple[str, str, Callable[[str, str], Any]]] = {
    "GAPLESS_LEDGER": ("", "ledger", _text),
    "GAPLESS_QUEUE": ("", "queue", _text),
    "GAPLESS_METRICS_PORT": ("", "metrics_port", _whole_number),
    "GAPLESS_METRICS_HOST": ("", "metrics_host", _text),
    "GAPLESS_WORKERS": ("fetch", "workers", _whole_number),
    "GAPLESS_BATCH_SIZE": ("fetch", "batch_size", _whole_number),
    "GAPLESS_CHUNK_SIZE": ("fetch", "chunk_size", _whole_number),
    "GAPLESS_MAX_CONCURRENT": ("fetch", "max_concurrent", _whole_number),
    "GAPLESS_VERIFY": ("fetch", "verify", _text),
    "GAPLESS_RETRY": ("fetch", "retry", _text),
    "GAPLESS_RETRY_BASE": ("retry", "base", _duration),
    "GAPLESS_RETRY_MAX_DELAY": ("retry", "max_delay", _duration),
    "GAPLESS_RETRY_JITTER": ("retry", "jitter", _fraction),
    "GAPLESS_RETRY_LIMIT": ("retry", "limit", _whole_number),
    "GAPLESS_RETRY_SCHEDULE": ("retry", "schedule", _durations),
    "GAPLESS_SLOTS": ("worker", "slots", _text),
    # Shared with other tools.
    "BACKFILL_WORKERS": ("fetch", "workers", _whole_number),
    "BACKFILL_BATCH_SIZE": ("fetch", "batch_size", _whole_number),
    "BACKFILL_START_HEIGHT": ("fetch", "start_height", _whole_number),
    "BACKFILL_END_HEIGHT": ("fetch", "end_height", _whole_number),
}
"""Section, key and parser. Of two variables for one key, the first one wins."""
