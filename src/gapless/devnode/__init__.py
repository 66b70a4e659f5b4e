"""A node for development: a simulated or recorded chain behind JSON-RPC, with faults on demand.

chain       blocks up to a head that grows and reorganises
blocks      what a simulated block is made of (drafts, envelopes, outcomes, headers)
store       simulated chains in the cache
replay      recorded chains
methods     the JSON-RPC methods (filters)
limits      what providers refuse, with their error messages
faults      the faults to inject; `injector` decides when
server      the node itself, on `wire`
"""

from gapless.devnode.chain import Chain, Parameters, simulated
from gapless.devnode.faults import Fault, Faults, Planned, parse_faults
from gapless.devnode.limits import Limits, Metering
from gapless.devnode.replay import replayed
from gapless.devnode.server import DevNode, Pace

__all__ = [
    "Chain",
    "DevNode",
    "Fault",
    "Faults",
    "Limits",
    "Metering",
    "Pace",
    "Parameters",
    "Planned",
    "parse_faults",
    "replayed",
    "simulated",
]
