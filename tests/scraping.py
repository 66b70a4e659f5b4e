"""The contents of a metrics page, as one number for each sample."""

from __future__ import annotations

from collections import Counter

from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families


class Scrape(Counter[tuple[str, ...]]):
    """Samples by name and label values; missing ones are zero."""

    def __sub__(self, before: Counter[tuple[str, ...]]) -> Scrape:
        """What was added since; unlike a counter, a gauge may have decreased."""
        return Scrape({key: value - before[key] for key, value in self.items()})


async def scraped(url: str) -> Scrape:
    """Scrapes a page as Prometheus would."""
    async with ClientSession() as session, session.get(url) as answer:
        answer.raise_for_status()
        text = await answer.text()
    return Scrape(
        {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
    )
