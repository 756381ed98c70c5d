"""The chat client against a loopback server: retries, time limits, typed failures, addresses, keys.

pytest tests/unit/test_llm_client.py -q -n 0
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.loopback import LoopbackServer, serving
from trustvid.errors import ConfigError
from trustvid.llm.client import OpenAIChat
from trustvid.llm.messages import ChatMessage, ChatRequest, Failure, Image, Reply, request_key
from trustvid.llm.retrying import retry_after_s
from trustvid.llm.settings import Endpoint, Limits, Sampling

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with serving() as running:
        yield running


def ask(text: str = "Is it red?", **settings: object) -> ChatRequest:
    return ChatRequest((ChatMessage.of("user", text),), **settings)


def chat(server: LoopbackServer, model: str, **limits: object) -> OpenAIChat:
    limits = {"backoff_s": 0.01, "max_retries": 2, **limits}
    return OpenAIChat(Endpoint(model, server.url), limits=Limits(**limits))


def outcome(server: LoopbackServer, model: str, **limits: object) -> Reply | Failure:
    return chat(server, model, **limits).complete_many([ask()])[0]


def test_a_plain_reply_has_text_and_counts(server: LoopbackServer) -> None:
    reply = outcome(server, "yes")
    assert reply == Reply("yes", "stop", "yes", prompt_tokens=1, completion_tokens=1, stored=False)


@pytest.mark.parametrize(
    ("model", "kind", "said", "requests"),
    [
        ("401", "http_401", "check the key", 1),
        ("500-forever", "http_500", "code 1", 3),
        ("html-200", "bad_reply", "<html>gateway</html>", 3),
        ("no-choices", "bad_reply", "no chat completion", 3),
        ("content-null", "bad_reply", "no content", 3),
        ("drop", "connection", "disconnected", 3),
        ("refusing", "refused", "I cannot help with that.", 1),
        ("unheard-of", "http_404", "no such model", 1),
    ],
)
def test_what_goes_wrong_is_a_typed_failure(
    server: LoopbackServer, model: str, kind: str, said: str, requests: int
) -> None:
    failure = outcome(server, model)
    assert isinstance(failure, Failure) and failure.kind == kind
    assert said in failure.message and "\n" not in failure.message
    assert server.requests[model] == failure.attempts == requests


def test_a_server_that_is_not_there_is_a_connection_failure() -> None:
    with serving() as server:
        gone = server.url
    failure = OpenAIChat(Endpoint("yes", gone), limits=Limits(max_retries=1, backoff_s=0.01)).complete_many([ask()])[0]
    assert failure.kind == "connection" and failure.attempts == 2


def test_a_slow_attempt_is_cut_and_tried_again(server: LoopbackServer) -> None:
    started = time.monotonic()
    failure = outcome(server, "slow-20", timeout_s=0.5, max_retries=1)
    assert failure.kind == "timeout" and "0.5 s" in failure.message
    assert time.monotonic() - started < 5 and server.requests["slow-20"] == 2


def test_all_attempts_together_have_a_limit(server: LoopbackServer) -> None:
    started = time.monotonic()
    failure = outcome(server, "slow-20", timeout_s=0.5, total_timeout_s=1.2, max_retries=50)
    assert failure.kind == "timeout" and "1.2 s in all" in failure.message
    assert time.monotonic() - started < 6 and 2 <= server.requests["slow-20"] <= 3


def test_retry_after_is_honoured_and_retries_do_not_multiply(server: LoopbackServer) -> None:
    started = time.monotonic()
    reply = outcome(server, "429x2-then-yes")
    assert isinstance(reply, Reply) and reply.text == "yes"
    assert server.requests["429x2-then-yes"] == 3 and time.monotonic() - started >= 2


def test_retries_end_where_they_are_asked_to(server: LoopbackServer) -> None:
    failure = outcome(server, "429x2-then-yes", max_retries=1)
    assert failure.kind == "rate_limited" and server.requests["429x2-then-yes"] == 2


def test_a_pause_beyond_the_time_left_is_not_waited_for(server: LoopbackServer) -> None:
    started = time.monotonic()
    failure = outcome(server, "429x2-then-yes", total_timeout_s=0.9)
    assert failure.kind == "rate_limited" and time.monotonic() - started < 0.8


def test_one_pause_holds_back_the_other_requests(server: LoopbackServer) -> None:
    one_at_a_time = chat(server, "429x2-then-yes", concurrency=1)
    started = time.monotonic()
    replies = one_at_a_time.complete_many([ask(str(number)) for number in range(3)])
    assert [reply.text for reply in replies] == ["yes"] * 3 and server.requests["429x2-then-yes"] == 5
    assert time.monotonic() - started >= 2


def test_retry_after_forms() -> None:
    assert retry_after_s({"retry-after": "1.5"}, 0) == 1.5
    assert retry_after_s({"retry-after-ms": "250", "retry-after": "9"}, 0) == 0.25
    assert retry_after_s({"retry-after": "Thu, 01 Jan 1970 00:00:05 GMT"}, 8) == 0
    for bad in ("", "soon", "-1", "inf", "nan"):
        assert retry_after_s({"retry-after": bad}, 0) is None
    assert retry_after_s({}, 0) is None


def test_concurrency_is_bounded_and_order_is_kept() -> None:
    def reply(body: dict) -> str:
        time.sleep(0.05)
        return body["messages"][0]["content"]

    with serving(reply) as server:
        requests = [ask(f"number {number}") for number in range(24)]
        replies = chat(server, "echo", concurrency=6).complete_many(requests)
        assert [reply.text for reply in replies] == [f"number {number}" for number in range(24)]
        assert server.most_in_flight == 6


def test_requests_are_taken_from_a_stream_as_replies_are(server: LoopbackServer) -> None:
    taken = []

    def requests() -> Iterator[ChatRequest]:
        for number in range(1000):
            taken.append(number)
            yield ask(str(number))

    replies = chat(server, "yes", concurrency=2).complete_stream(requests())
    assert next(replies).text == "yes" and len(taken) <= 16
    replies.close()


def test_a_refused_key_stops_further_requests(server: LoopbackServer) -> None:
    failures = chat(server, "401", concurrency=1).complete_many([ask(str(number)) for number in range(5)])
    assert {failure.kind for failure in failures} == {"http_401"}
    assert server.requests["401"] == 1 and "not sent" in failures[-1].message


def test_a_server_that_is_down_is_given_up(server: LoopbackServer) -> None:
    down = chat(server, "500-forever", concurrency=1, max_retries=0, give_up_after=3)
    failures = down.complete_many([ask(str(number)) for number in range(9)])
    assert server.requests["500-forever"] == 3 and {failure.kind for failure in failures} == {"http_500"}
    assert failures[-1].attempts == 0 and "3 requests in a row failed" in failures[-1].message


@pytest.mark.parametrize("ending", ["/v1", "/v1/", "/v1/chat/completions", "/v1/chat/completions/"])
def test_address_forms(server: LoopbackServer, ending: str) -> None:
    reply = OpenAIChat(Endpoint("yes", server.address + ending)).complete_many([ask()])[0]
    assert isinstance(reply, Reply) and server.paths == ["/v1/chat/completions"]


def test_a_root_without_v1_is_told_so(server: LoopbackServer) -> None:
    failure = OpenAIChat(Endpoint("yes", server.address)).complete_many([ask()])[0]
    assert failure.kind == "http_404" and "/v1" in failure.message


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:8000/v1", "no address"),
        ("", "no address"),
        ("http://[::1/v1", "no address"),
        ("https://me:secret@host/v1", "password"),
        ("https://host/v1?api-version=1", "query"),
    ],
)
def test_bad_addresses_are_refused_and_not_repeated(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        OpenAIChat(Endpoint("m", url))
    assert "secret" not in str(caught.value)


def test_all_faults_come_together() -> None:
    with pytest.raises(ConfigError) as caught:
        OpenAIChat(
            Endpoint("", "x", extra={"temperature": 1}),
            Sampling(temperature=-1, top_p=0, max_tokens=0),
            Limits(0, 0, -1, -1, -1, 0),
        )
    assert len(caught.value.faults) == 12, caught.value.faults


def test_an_unset_key_stops_and_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    with pytest.raises(ConfigError, match="JUDGE_KEY is not set"):
        OpenAIChat(Endpoint("m", "http://127.0.0.1:1/v1", key_env="JUDGE_KEY"))


def test_the_key_is_sent_and_shown_nowhere(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-loopback-4711")
    caplog.set_level(logging.DEBUG)
    keyed = OpenAIChat(Endpoint("401", server.url, key_env="JUDGE_KEY"), limits=Limits(max_retries=0))
    failure = keyed.complete_many([ask()])[0]
    assert "bad key: Bearer ***" in failure.message  # it was sent, and struck out of what came back
    OpenAIChat(Endpoint("yes", server.url, key_env="JUDGE_KEY")).complete_many([ask()])
    shown = [caplog.text, repr(keyed), repr(vars(keyed)), str(keyed.identity), failure.message]
    assert not any("4711" in text for text in shown)


def test_what_is_sent(server: LoopbackServer) -> None:
    endpoint = Endpoint("yes", server.url, extra={"reasoning_effort": "low"})
    sampling = Sampling(temperature=0.0, top_p=0.9, max_tokens=7, seed=1, stop=("END",))
    asked = ChatRequest((ChatMessage.of("user", "Frame 1:", Image(b"\x89PNG", "image/png")),), json_mode=True)
    first, second = OpenAIChat(endpoint, sampling).complete_many([asked, ask(sample=1)])
    assert isinstance(first, Reply) and isinstance(second, Reply)
    body = next(body for body in server.bodies if "response_format" in body)
    assert body["response_format"] == {"type": "json_object"} and body["reasoning_effort"] == "low"
    assert (body["temperature"], body["top_p"], body["max_tokens"], body["stop"]) == (0.0, 0.9, 7, ["END"])
    assert body["messages"][0]["content"][1]["image_url"]["url"] == "data:image/png;base64,iVBORw=="
    assert len({body["seed"] for body in server.bodies}) == 2 and all(0 <= b["seed"] < 2**31 for b in server.bodies)


def test_unset_sampling_is_left_to_the_server(server: LoopbackServer) -> None:
    OpenAIChat(Endpoint("yes", server.url)).complete_many([ask()])
    assert set(server.bodies[0]) == {"model", "messages"}


def test_the_key_of_a_request_holds_all_that_can_change_the_reply() -> None:
    endpoint, base = Endpoint("m", "http://127.0.0.1:1/v1"), ask()
    key = request_key(OpenAIChat(endpoint).identity, base)
    others = [
        (Endpoint("n", "http://127.0.0.1:1/v1"), Sampling(), base),
        (Endpoint("m", "http://10.0.0.1:1/v1"), Sampling(), base),
        (Endpoint("m", "http://127.0.0.1:1/v1", extra={"a": 1}), Sampling(), base),
        (endpoint, Sampling(temperature=0.0), base),
        (endpoint, Sampling(), ask("Is it blue?")),
        (endpoint, Sampling(), ask(sample=1)),
        (endpoint, Sampling(), ask(json_mode=True)),
        (endpoint, Sampling(), ask(prompt_digest="0")),
        (endpoint, Sampling(), ask(sampling=Sampling(temperature=0.5))),
        (endpoint, Sampling(), ChatRequest((ChatMessage.of("system", "Is it red?"),))),
        (endpoint, Sampling(), ChatRequest((ChatMessage.of("user", "Is it red?", Image(b"a")),))),
        (endpoint, Sampling(), ChatRequest((ChatMessage.of("user", "Is it red?", Image(b"b")),))),
    ]
    keys = [request_key(OpenAIChat(e, s).identity, request) for e, s, request in others]
    assert len({key, *keys}) == 1 + len(others)
    moved = Endpoint("m", "http://localhost:8001/other/v1/", None)
    assert request_key(OpenAIChat(moved).identity, base) == key  # port and path are no part of the model


def test_a_chat_works_inside_a_running_loop(server: LoopbackServer) -> None:
    import asyncio

    async def notebook() -> Reply | Failure:
        return outcome(server, "yes")

    assert isinstance(asyncio.run(notebook()), Reply)


def test_a_chat_works_in_a_forked_child(server: LoopbackServer) -> None:
    used = chat(server, "yes")
    assert isinstance(used.complete_many([ask()])[0], Reply)
    child = os.fork()
    if child == 0:  # pragma: no cover (another process)
        os._exit(0 if isinstance(used.complete_many([ask("in the child")])[0], Reply) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_settings_import_neither_openai_nor_asyncio() -> None:
    code = "import sys, trustvid.llm.settings, trustvid.llm.messages; print({'openai', 'asyncio'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert out.stdout.strip() == "set()", out.stdout + out.stderr
