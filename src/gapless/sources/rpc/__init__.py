"""JSON-RPC over HTTP, from one or several providers, none of which is to be trusted to answer.

pool        what callers use: `ask`, and the counts
providers   the endpoints of a process by URL, which all its pools share
contact     first contact, while a person waits: who can be used, or why not
standing    whether an endpoint is down, and what it has done
choice      which endpoint is next, how long to wait for it, or why none will do
errand      one `ask` on its way: what it has, what it suffered, its patience
exchange    one request and what its answer teaches
endpoint    one provider: its secret URL, and everything learned about it
limits      how much at once, learned by trying (pure); `gate` holds requests to it
pace        how many calls a second, learned by trying (pure)
offer       which methods and which history (pure); `survey` finds out about the latter
envelope    requests and answers as bytes
http        bytes to a provider and back
profile     what was learned, to be kept until the next start
"""

from gapless.sources.rpc.contact import Absent
from gapless.sources.rpc.endpoint import EndpointSpec
from gapless.sources.rpc.envelope import Call
from gapless.sources.rpc.errand import Answers
from gapless.sources.rpc.http import Timeouts
from gapless.sources.rpc.pool import Pool
from gapless.sources.rpc.profile import Learned, Profile
from gapless.sources.rpc.providers import Providers, Share
from gapless.sources.rpc.refused import Refused
from gapless.sources.rpc.standing import Served

__all__ = [
    "Absent",
    "Answers",
    "Call",
    "EndpointSpec",
    "Learned",
    "Pool",
    "Profile",
    "Providers",
    "Refused",
    "Served",
    "Share",
    "Timeouts",
]
