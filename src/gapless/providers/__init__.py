"""JSON-RPC over HTTP, from one or several providers, none of which is to be trusted to answer.

pool        what callers use: `ask`, and the counts
registry    the endpoints of a process by URL, which all its pools share
contact     first contact, while a person waits: who can be used, or why not
standing    whether an endpoint is down, and what it has done
choice      which endpoint is next, how long to wait for it, or why none will do
pending     one `ask` on its way: what it has, what failed, its patience
exchange    one request and what its answer teaches
endpoint    one provider: its secret URL, and everything learned about it
limits      how much at once, learned by trying (pure); `gate` holds requests to it
pace        how many calls a second, learned by trying (pure)
offer       which methods and which history (pure); `survey` finds out about the latter
envelope    requests and answers as bytes
http        bytes to a provider and back
profile     what was learned, to be kept until the next start
queries     what a pool asks by itself, in the words of one kind of node
provider_errors  what a refusal means, by its words
"""

from gapless.providers.contact import Absent
from gapless.providers.endpoint import EndpointSpec
from gapless.providers.envelope import Call
from gapless.providers.http import Timeouts
from gapless.providers.pending import Answers
from gapless.providers.pool import Pool
from gapless.providers.profile import Learned, Profile
from gapless.providers.queries import NodeQueries
from gapless.providers.refused import Refused
from gapless.providers.registry import Providers, Share
from gapless.providers.standing import Served

__all__ = [
    "Absent",
    "Answers",
    "Call",
    "EndpointSpec",
    "Learned",
    "NodeQueries",
    "Pool",
    "Profile",
    "Providers",
    "Refused",
    "Served",
    "Share",
    "Timeouts",
]
