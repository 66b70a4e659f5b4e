"""Secrets in a URL are redacted, in any notation, and in linear time."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from time import thread_time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.core.redaction import Secrets, redact, urls_in

KEY = "s3cr3t-K3y+0123"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at https://u:p@h.io:8545/v2/KEY?x=1, again", "at https://h.io:8545/…, again"),
        ("`https://host/KEY` and 'ws://other/KEY'", "`https://host/…` and 'ws://other/…'"),
        ("https://host", "https://host"),
        ("https://host:8545 is down", "https://host:8545 is down"),
        ("http://[::1]:8545/KEY", "http://[::1]:8545/…"),
        ("sqlite:///here/it.db", "sqlite:///…"),
        ("(https://host/KEY)", "(https://host/…)"),
        ("a=https://one/KEY&b=https://two/KEY", "a=https://one/…https://two/…"),
        ("postgresql://me:PW@db:5432/x", "postgresql://db:5432/…"),
        ("postgresql://me:P@W@db:5432/x", "postgresql://db:5432/…"),
        ("postgresql://me:P%40W@db/x", "postgresql://db/…"),
        ("postgresql://me:P/W@db/x", "postgresql://…"),
        ("postgresql://me:P#W@db/x", "postgresql://…"),
        ("postgresql://me:P?W@db/x", "postgresql://…"),
        ("postgresql://me:P:W@db/x", "postgresql://db/…"),
        ("postgresql://me:P,W@db/x", "postgresql://db/…"),
        ("postgresql://me:P'W@db/x", "postgresql://db/…"),
        ("postgresql://me:PW", "postgresql://…"),
        ("`postgresql://me:P/W@db/x` is bad", "`postgresql://…` is bad"),
        ("https://host/KEY@other", "https://…"),
        ("", ""),
        ("no address: //host/x", "no address: //host/x"),
    ],
)
def test_only_scheme_and_host_of_a_url_remain(text: str, shown: str) -> None:
    assert redact(text) == shown
    assert redact(shown) == shown


PASSWORD = st.text(st.sampled_from("ab@/:#%?&,'=+4 0"), min_size=1, max_size=8).map(
    lambda text: f"pw{text.replace(' ', '')}wp"
)


@given(PASSWORD)
def test_no_part_of_a_password_is_shown(password: str) -> None:
    shown = redact(f"cannot connect to postgresql://me:{password}@db.example:5432/x: refused")
    assert "pw" not in shown
    assert "wp" not in shown


FORMS = {
    "as it is": KEY,
    "lower case": KEY.lower(),
    "upper case": KEY.upper(),
    "urlencoded": quote(KEY, safe=""),
    "form": quote_plus(KEY),
    "base64": b64encode(KEY.encode()).decode(),
    "base64 without padding": b64encode(KEY.encode()).decode().rstrip("="),
    "base64 of more": b64encode(f"{KEY}:more".encode()).decode(),
    "base64 for URLs": urlsafe_b64encode(KEY.encode()).decode(),
    "hex": KEY.encode().hex(),
}


@pytest.mark.parametrize("url", [f"https://h/v2/{KEY}", f"https://h/?k={quote(KEY, safe='')}"])
@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_redacted_in_any_encoding(url: str, form: str) -> None:
    said = Secrets([url]).struck(f"unknown project {FORMS[form]}.")
    assert said in ("unknown project ….", "unknown project …")


def test_credentials_are_redacted_in_the_form_of_a_header() -> None:
    secrets = Secrets(["https://user:pass@host/"])
    assert (
        secrets.struck(f"Basic {b64encode(b'user:pass').decode()} is wrong") == "Basic … is wrong"
    )
    assert secrets.struck("no user with the password pass") == "no … with the password …"


@pytest.mark.parametrize("key", ["k", "ab1", "q7x9z"])
def test_short_keys_are_redacted_as_whole_words(key: str) -> None:
    secrets = Secrets([f"https://host/v2/{key}"])
    encoded = b64encode(key.encode()).decode().rstrip("=")
    assert secrets.struck(f"no key={key}, {key.upper()} or /{key}/") == "no key=…, … or /…/"
    assert secrets.struck("v2 asks HTTP 401 of a quick node") == "v2 asks HTTP 401 of a quick node"
    if len(key) > 1:
        assert secrets.struck(f"bad {encoded}") == "bad …"


def test_words_that_every_url_contains_remain() -> None:
    secrets = Secrets(["https://rpc.ankr.com/eth/rpc?apikey=Zz9Zz9Zz9"])
    assert (
        secrets.struck("the answer is not JSON-RPC: Zz9Zz9Zz9") == "the answer is not JSON-RPC: …"
    )


def test_the_credentials_and_options_of_a_database_are_secret() -> None:
    secrets = Secrets(["postgresql://me:hunter22@db:5432/ledger?sslpassword=sesame77"])
    said = secrets.struck("there is no ledger for me at db: hunter22, sesame77")
    assert said == "there is no ledger for me at db: …, …"


def test_urls_are_found_in_arguments() -> None:
    arguments = ["fetch", "--rpc=https://host/k", "tag=ws://h/x", "env:RPC", "http://a/b"]
    assert [*urls_in(arguments)] == ["https://host/k", "ws://h/x", "http://a/b"]


@pytest.mark.parametrize(
    "piece", ["a.", "a://", "://", "a:/", "https://h/", "u:p@", "x://u:p@", "'", "ab ", "://a@/"]
)
def test_redaction_takes_linear_time(piece: str) -> None:
    """Forty times the text takes about forty times as long, not 1,600 times."""
    secrets = Secrets([f"https://host/{KEY}"])

    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        best = float("inf")
        for _ in range(3):
            began = thread_time()
            secrets.struck(text)
            best = min(best, thread_time() - began)
        return best

    assert seconds(160_000) < 400 * max(seconds(4_000), 1e-5)
