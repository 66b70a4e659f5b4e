"""Resolves endpoints and sinks: names come from the configuration, and URLs get a name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from gapless.chains import Network, family_of, find_network
from gapless.config import Config, EndpointSettings, SinkTarget, is_name
from gapless.core.errors import UsageError
from gapless.core.redaction import STRUCK, redact
from gapless.core.remedies import AllowVariable, GiveEndpoint, GiveSink
from gapless.core.similar import did_you_mean


@dataclass(frozen=True)
class Targets:
    """The names of endpoints and a sink, and the configuration that resolves them."""

    config: Config
    endpoints: tuple[str, ...]
    sink: str
    shared: bool  # whether other processes can resolve these names


def targets_of(
    config: Config, network: Network, rpcs: Sequence[str], target: str | None, rps: float | None
) -> Targets:
    """The given endpoints and sink, or those of the configuration."""
    configured = (name for name, each in config.endpoints.items() if _is_of(each, network))
    names = tuple(rpcs) or tuple(configured) or usual_endpoints(network)
    if not names:
        raise UsageError(f"no endpoint for `{network.name}`", remedy=_remedy(network))
    if target is None and len(config.sinks) == 1:
        target = next(iter(config.sinks))
    if not target:
        raise UsageError("no sink given", remedy=GiveSink())
    config.refuse_misspelled_sink(target)
    endpoints = dict(config.endpoints)
    chosen = tuple(_named(endpoints, each) for each in names)
    if rps is not None:
        for name in chosen:
            found = endpoints.get(name) or EndpointSettings(name)  # `env:NAME` is its own name
            endpoints[name] = msgspec.structs.replace(found, rps=rps)
    sinks, sink = dict(config.sinks), target
    if target not in sinks and not target.startswith("env:"):
        sink = redact(target)
        sinks[sink] = SinkTarget(target)
    return Targets(
        msgspec.structs.replace(config, endpoints=endpoints, sinks=sinks),
        chosen,
        sink,
        all(_is_name(config, each) for each in names) and sink not in sinks.keys() - config.sinks,
    )


def usual_endpoints(network: Network) -> tuple[str, ...]:
    """The default endpoint of a network, from its environment variable.

    Other tools read the same variable, for this network only.
    """
    return (f"env:{network.variable}",) if _is_set(network) else ()


def _is_set(network: Network) -> bool:
    return network.variable is not None and bool(os.environ.get(network.variable))


def has_endpoint(config: Config, network: Network) -> bool:
    """Whether a fetch of this network works without an explicit endpoint."""
    configured = any(_is_of(each, network) for each in config.endpoints.values())
    return configured or bool(usual_endpoints(network))


def _remedy(network: Network) -> GiveEndpoint | AllowVariable:
    for other in filter(_is_set, family_of(network).networks):
        assert other.variable is not None
        return AllowVariable(other.variable, other.name, network.name)
    return GiveEndpoint()


def _is_of(endpoint: EndpointSettings, network: Network) -> bool:
    return endpoint.network is not None and find_network(endpoint.network).name == network.name


def _is_name(config: Config, text: str) -> bool:
    return text in config.endpoints or text.startswith("env:")


def host_of(url: str) -> str:
    """The part of an endpoint's URL that may be shown."""
    host = redact(url).partition("://")[2].removesuffix(f"/{STRUCK}")
    if not host or STRUCK in host:
        raise UsageError(
            "the URL of an endpoint is invalid",
            hint="write `https://host/path`; percent-encode special characters (`@` is `%40`)",
        )
    return host.lower()


def _named(endpoints: dict[str, EndpointSettings], text: str) -> str:
    """The name of an endpoint; a URL is named after its host, without secrets."""
    if text in endpoints or text.startswith("env:"):
        return text
    if "://" not in text:
        raise UsageError(
            "the given endpoint is neither a URL nor a configured name",
            hint=(similar := did_you_mean(text, endpoints)),
            remedy=None if similar else GiveEndpoint(),
        )
    host = host_of(text)
    if is_name(host):  # such as `localhost`: a port distinguishes it from a configured name
        host += ":443" if text.startswith("https:") else ":80"
    name, nth = host, 1
    while name in endpoints and endpoints[name].url != text:
        nth += 1
        name = f"{host}-{nth}"
    endpoints[name] = EndpointSettings(text)
    return name
