"""A node for development: a simulated or recorded chain behind its API, with faults on demand.

chain          blocks up to a head that grows and reorganises
growth         when it does, for a live chain
building       what a family gives a simulated chain: its blocks
dialect        what a family gives a node: how it is asked and answers
evm, tron      the blocks and the dialects of these families, and recorded EVM chains
simulation     simulated chains by family
store          simulated chains in the cache
observer       what one node sees of a chain that several nodes share
view           that, and what the node allows, when it answers a call
subscriptions  notices of new heads, over a `websocket`
limits         what providers refuse, with their error messages
faults         the faults to inject; `injector` decides when
server         the node itself, on `wire`
"""

from gapless.devnode.building import Parameters
from gapless.devnode.chain import Chain
from gapless.devnode.evm.replay import replayed
from gapless.devnode.faults import Fault, Faults, Planned, parse_faults
from gapless.devnode.growth import Growth, ReorgSchedule
from gapless.devnode.limits import Limits, Metering
from gapless.devnode.observer import Visibility, parse_visibility
from gapless.devnode.server import DevNode, Pace
from gapless.devnode.simulation import simulated

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
