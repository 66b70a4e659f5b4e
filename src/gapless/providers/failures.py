"""Why no connection was made, by the kind of the error: its own message may contain the URL."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl

from gapless.providers.transport import TransportFailure

_NUMBER = re.compile(r"\[Errno (\d+)\]")


def connection_failure(error: OSError) -> TransportFailure:
    """Describe an error of connecting, and its likely cause."""
    match error:
        case socket.gaierror():
            return TransportFailure("unknown host", hint="Is the host name spelled correctly?")
        case ssl.SSLCertVerificationError():
            return TransportFailure(
                "invalid TLS certificate", hint="Is the certificate issued for this host name?"
            )
        case ssl.SSLError():
            return TransportFailure("TLS handshake failed", hint="Does this port expect `http://`?")
    if (number := _number(error)) is None:
        return TransportFailure("no connection", sent=False)
    hint = "Is a node running at this address?" if number == errno.ECONNREFUSED else ""
    message = f"no connection ({os.strerror(number).lower()})"
    return TransportFailure(message, sent=False, hint=hint)


def _number(error: OSError) -> int | None:
    """The error's number; asyncio puts those of several addresses into one text."""
    if error.errno is not None:
        return error.errno
    found = _NUMBER.search(str(error))
    return int(found[1]) if found else None
