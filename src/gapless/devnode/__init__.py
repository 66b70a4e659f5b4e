"""A node for development: a simulated or recorded chain behind JSON-RPC, with faults on demand.

chain          blocks up to a head that grows and reorganises
growth         when it does, for a live chain
blocks         what a simulated block is made of (drafts, envelopes, outcomes, headers)
store          simulated chains in the cache
replay         recorded chains
observer       what one node sees of a chain that several nodes share
methods        the JSON-RPC methods (filters)
subscriptions  notices of new heads, over a `websocket`
limits         what providers refuse, with their error messages
faults         the faults to inject; `injector` decides when
server         the node itself, on `wire`
"""

from gapless.devnode.chain import Chain, Parameters, simulated
from gapless.devnode.faults import Fault, Faults, Planned, parse_faults
from gapless.devnode.growth import Growth, ReorgSchedule
from gapless.devnode.limits import Limits, Metering
from gapless.devnode.observer import Visibility, parse_visibility
from gapless.devnode.replay import replayed
from gapless.devnode.server import DevNode, Pace

__all__ = [
    "Chain",
    "DevNode",
    "Fault",
    "Faults",
    "Growth",
    "Limits",
    "Metering",
    "Pace",
    "Parameters",
    "Planned",
    "ReorgSchedule",
    "Visibility",
    "parse_faults",
    "parse_visibility",
    "replayed",
    "simulated",
]
