"""Calls over HTTP and WebSocket to one or more providers, none of which is reliable.

pool             the interface for callers: `ask`, and the counts
registry         the endpoints of a process by URL, shared by all its pools
contact          first contact, while a user waits: which endpoints are usable, and why not
standing         whether an endpoint is down, and what it has served
choice           which endpoint to ask next, how long to wait for it, or why none is usable
pending          one `ask` in progress: its results, failures and remaining patience
exchange         one request, and what its answer teaches about limits
endpoint         one provider: its secret URL and keys, and everything learned about it
request_queue    which request is sent next, and when: enforces the limits and the pace
limits           how much to send at once, learned by trying (pure)
pace             how many calls per second, learned by trying (pure)
offer            which methods and which history (pure); `survey` finds out about the history
calls            a call, its result, or the error instead
wire             how calls travel to one kind of node: `envelope` (JSON-RPC) or `http_api`
http             bytes to a provider and back
subscription     notices of a provider's new heads, over a WebSocket
profile          what was learned, saved for the next start
queries          what a pool asks on its own, as one kind of node expects it
provider_errors  what an error message of a provider means
"""

from gapless.providers.calls import Call
from gapless.providers.contact import Absent
from gapless.providers.endpoint import EndpointSpec
from gapless.providers.envelope import JSON_RPC
from gapless.providers.http_api import HttpApi, RangeMethod
from gapless.providers.pending import Answers
from gapless.providers.pool import Pool
from gapless.providers.profile import Learned, Profile
from gapless.providers.queries import HeadNotice, HeadSubscription, NodeQueries
from gapless.providers.refused import Refused
from gapless.providers.registry import Providers, Share
from gapless.providers.standing import Served
from gapless.providers.subscription import heads
from gapless.providers.transport import Timeouts, TransportFailure
from gapless.providers.wire import Wire

__all__ = [
    "JSON_RPC",
    "Absent",
    "Answers",
    "Call",
    "EndpointSpec",
    "HeadNotice",
    "HeadSubscription",
    "HttpApi",
    "Learned",
    "NodeQueries",
    "Pool",
    "Profile",
    "Providers",
    "RangeMethod",
    "Refused",
    "Served",
    "Share",
    "Timeouts",
    "TransportFailure",
    "Wire",
    "heads",
]
