"""The store of replies: what is kept, what is asked again, several processes, kills, replay.

pytest tests/unit/test_llm_store.py -q -n 0
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.loopback import LoopbackServer, serving
from trustvid.errors import ConfigError, DataError
from trustvid.llm import loop
from trustvid.llm.chat import Chat
from trustvid.llm.client import OpenAIChat
from trustvid.llm.dialogue import Settled, Unreadable, settle
from trustvid.llm.messages import ChatMessage, ChatRequest, Failure, Outcome, Reply
from trustvid.llm.settings import Endpoint, Limits, Sampling
from trustvid.llm.store import Claims, Received, RequestStore
from trustvid.llm.stored import Replay, StoredChat, remembered

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

ROOT = Path(__file__).parents[2]
# A client in a process of its own: asks N questions, prints one line for each reply.
CLIENT = """
import sys
from trustvid.llm.client import OpenAIChat
from trustvid.llm.messages import ChatMessage, ChatRequest
from trustvid.llm.settings import Endpoint, Limits, Sampling
from trustvid.llm.stored import remembered
url, path, number = sys.argv[1:]
chat = remembered(OpenAIChat(Endpoint("echo", url), limits=Limits(concurrency=4)), path)
for reply in chat.complete_stream(ChatRequest((ChatMessage.of("user", str(n)),)) for n in range(int(number))):
    print(reply.text, reply.stored, flush=True)
"""


class Scripted(Chat):
    """Says the next line of its script for each conversation; counts what it was asked."""

    parallel = 4

    def __init__(self, *script: str | Failure, model: str = "scripted"):
        self.script, self.model, self.asked = list(script), model, []

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"kind": "scripted", "model": self.model}

    async def complete(self, request: ChatRequest, *, fresh: bool = False) -> Outcome:
        self.asked.append(request.messages[-1].text)
        said = self.line(request.messages[-1].text)
        return said if isinstance(said, Failure) else Reply(said)

    def line(self, question: str) -> str | Failure:
        return self.script.pop(0)


class ByQuestion(Scripted):
    """Says what belongs to the question: several conversations go on side by side, in no fixed order."""

    def __init__(self, lines: Mapping[str, str | Failure]):
        super().__init__()
        self.lines = lines

    def line(self, question: str) -> str | Failure:
        return self.lines[question]


def ask(text: str = "colour?") -> ChatRequest:
    return ChatRequest((ChatMessage.of("user", text),))


def read_word(reply: Reply) -> str:
    if not reply.text.isalpha():
        raise Unreadable(f"{reply.text!r} is no word")
    return reply.text


def again(request: ChatRequest, reply: Reply, reason: str) -> ChatRequest:
    return ChatRequest((*request.messages, ChatMessage.of("assistant", reply.text), ChatMessage.of("user", reason)))


def settled(chat: Chat, rounds: int = 3) -> Settled[str] | Failure:
    return loop.run(settle(chat, ask(), read_word, again, rounds))


def test_a_reply_is_asked_for_once(tmp_path: Path) -> None:
    first = remembered(Scripted("red"), tmp_path / "s.sqlite").complete_many([ask()])[0]
    second = remembered(Scripted(), tmp_path / "s.sqlite").complete_many([ask()])[0]
    assert (first.text, first.stored) == ("red", False) and (second.text, second.stored) == ("red", True)


def test_equal_requests_of_one_call_share_a_reply() -> None:
    scripted = Scripted("red")
    assert [reply.text for reply in remembered(scripted, None).complete_many([ask()] * 5)] == ["red"] * 5
    assert scripted.asked == ["colour?"]


class Slow(Scripted):
    async def complete(self, request: ChatRequest, *, fresh: bool = False) -> Outcome:
        await asyncio.sleep(0.2)
        return await super().complete(request)


def test_equal_requests_of_one_call_share_a_failure() -> None:
    scripted = Slow(Failure("timeout", "slow"), "red")
    chat = remembered(scripted, None)
    assert [outcome.kind for outcome in chat.complete_many([ask()] * 5)] == ["timeout"] * 5
    assert chat.complete_many([ask()])[0].text == "red" and len(scripted.asked) == 2


def test_another_model_is_another_question(tmp_path: Path) -> None:
    remembered(Scripted("red"), tmp_path / "s").complete_many([ask()])
    other = remembered(Scripted("blue", model="other"), tmp_path / "s").complete_many([ask()])[0]
    assert other.text == "blue"


def test_failures_are_never_served_and_only_they_are_asked_again(tmp_path: Path) -> None:
    broken = ByQuestion({"1": "one", "2": Failure("bad_reply", "the reply has no content", 3), "3": "three"})
    questions = [ask("1"), ask("2"), ask("3")]
    with_hole = remembered(broken, tmp_path / "s").complete_many(questions)
    assert [type(o) for o in with_hole] == [Reply, Failure, Reply]
    repaired = Scripted("two")
    texts = [reply.text for reply in remembered(repaired, tmp_path / "s").complete_many(questions)]
    assert texts == ["one", "two", "three"] and repaired.asked == ["2"]
    assert RequestStore(tmp_path / "s").counts() == {"replies": 3, "rejected": 0, "failures": 0}


def test_offline_asks_nobody_and_says_so(tmp_path: Path) -> None:
    remembered(Scripted("red"), tmp_path / "s").complete_many([ask()])
    known, unknown = remembered(Scripted(), tmp_path / "s", offline=True).complete_many([ask(), ask("shape?")])
    assert known.text == "red" and unknown.kind == "not_stored" and "scripted" in unknown.message


def test_a_replay_repeats_replies_and_failures(tmp_path: Path) -> None:
    failure = Failure("timeout", "no reply within 2 s", 2)
    remembered(ByQuestion({"1": "red", "2": failure}), tmp_path / "s").complete_many([ask("1"), ask("2")])
    store = RequestStore(tmp_path / "s", read_only=True)
    replayed = StoredChat(Replay(store), store, offline=True).complete_many([ask("1"), ask("2"), ask("3")])
    assert replayed[0].text == "red" and replayed[1] == failure and replayed[2].kind == "not_stored"


def test_a_replay_of_several_models_wants_one_named(tmp_path: Path) -> None:
    for model in ("a", "b"):
        remembered(Scripted("red", model=model), tmp_path / "s").complete_many([ask()])
    store = RequestStore(tmp_path / "s", read_only=True)
    with pytest.raises(ConfigError, match="it holds a; b"):
        Replay(store)
    with pytest.raises(ConfigError, match="replies of model=c"):
        Replay(store, "c")
    assert Replay(store, "b").identity["model"] == "b"


def test_a_replay_of_one_model_with_several_settings_says_how_to_choose(tmp_path: Path) -> None:
    for temperature in (0.0, 1.0):
        endpoint = Endpoint("m", "http://127.0.0.1:9/v1")
        chat = OpenAIChat(endpoint, Sampling(temperature=temperature), Limits(max_retries=0))
        RequestStore(tmp_path / "s").add([Received(str(temperature), chat.identity, {}, Reply("red"))])
    with pytest.raises(ConfigError, match=r"several settings.*offline=true"):
        Replay(RequestStore(tmp_path / "s", read_only=True))


def test_a_missing_or_foreign_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no stored replies there"):
        RequestStore(tmp_path / "none", read_only=True)
    (tmp_path / "text").write_text("not a database, but long enough to be looked at as one by its header " * 9)
    with pytest.raises(DataError, match="cannot be opened as a store"):
        RequestStore(tmp_path / "text")
    with sqlite3.connect(tmp_path / "new") as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(DataError, match="99"):
        RequestStore(tmp_path / "new")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be opened"):
        RequestStore(tmp_path / "file" / "s.sqlite")


def test_a_full_disk_is_an_error_with_the_reason(tmp_path: Path) -> None:
    chat = remembered(Scripted("red", "red"), tmp_path / "s")
    chat.store._connection().execute("PRAGMA max_page_count = 1")
    with pytest.raises(DataError, match="cannot be stored"):
        chat.complete_many([ask("x" * 100_000)])
    chat.store._connection().execute("PRAGMA max_page_count = 1000000")
    assert chat.complete_many([ask()])[0].text == "red"
    assert chat.store.counts()["replies"] == 2  # what had been held back went in too


# ------------------------------------------------------------------------------------------------------- dialogue


def test_an_unreadable_reply_is_asked_again_with_the_reason() -> None:
    scripted = Scripted("?!", "red")
    result = settled(scripted)
    assert (result.value, result.rounds) == ("red", 2) and scripted.asked == ["colour?", "'?!' is no word"]


def test_rounds_end_with_a_typed_failure() -> None:
    result = settled(Scripted("1", "2", "3", "never asked"))
    assert result.kind == "unreadable" and "3 rounds" in result.message and "'3' is no word" in result.message


def test_a_settled_item_costs_nothing_again(tmp_path: Path) -> None:
    settled(remembered(Scripted("1", "red"), tmp_path / "s"))
    assert settled(remembered(Scripted(), tmp_path / "s")).value == "red"
    assert RequestStore(tmp_path / "s").counts() == {"replies": 1, "rejected": 1, "failures": 0}


def test_an_interrupted_item_goes_on_where_it_stopped(tmp_path: Path) -> None:
    settled(remembered(Scripted("1", Failure("timeout", "cut")), tmp_path / "s"))
    rest = Scripted("red")
    assert settled(remembered(rest, tmp_path / "s")).value == "red" and rest.asked == ["'1' is no word"]


def test_an_item_that_used_up_its_rounds_is_asked_anew(tmp_path: Path) -> None:
    settled(remembered(Scripted("1", "2", "3"), tmp_path / "s"))
    anew = Scripted("red")
    assert settled(remembered(anew, tmp_path / "s")).value == "red" and anew.asked == ["colour?"]
    offline = settled(remembered(Scripted(), tmp_path / "s", offline=True))
    assert offline.value == "red"


def test_a_replayed_item_ends_as_it_did(tmp_path: Path) -> None:
    ended = settled(remembered(Scripted("1", "2", "3"), tmp_path / "s"))
    assert settled(remembered(Scripted(), tmp_path / "s", offline=True)) == ended


# ----------------------------------------------------------------------------------------------- several processes


def test_claims_exclude_each_other_and_die_with_their_process(tmp_path: Path) -> None:
    key, other = "0" * 64, "f" * 64
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom trustvid.llm.store import Claims\n"
        f"print(Claims(Path(sys.argv[1])).claim({key!r}), flush=True)\ntime.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert holder.stdout.readline().strip() == "True"
    claims = Claims(tmp_path / "lock")
    assert not claims.claim(key) and claims.claim(other) and not claims.claim(other)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert claims.claim(key)
    claims.release(key)
    assert claims.claim(key)


def start(server: LoopbackServer, path: Path, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CLIENT, server.url, str(path), str(number)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_two_processes_pay_once_for_each_question(tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> str:
        time.sleep(0.02)
        return f"echo {body['messages'][0]['content']}"

    with serving(reply) as server:
        processes = [start(server, tmp_path / "s", 60) for _ in range(2)]
        lines = [process.communicate(timeout=60)[0].splitlines() for process in processes]
        assert server.requests["echo"] == 60
    for said in lines:
        assert [line.split()[:2] for line in said] == [["echo", str(number)] for number in range(60)]
    assert sorted(line for said in lines for line in said if line.endswith("False")) == sorted(
        f"echo {number} False" for number in range(60)
    )


def test_a_killed_client_loses_at_most_what_was_in_flight(tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> str:
        time.sleep(0.02)
        return f"echo {body['messages'][0]['content']}"

    with serving(reply) as server:
        for _ in range(2):
            process = start(server, tmp_path / "s", 200)
            for _ in range(40):
                process.stdout.readline()
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        lines = start(server, tmp_path / "s", 200).communicate(timeout=60)[0].splitlines()
        assert [line.rsplit(" ", 1)[0] for line in lines] == [f"echo {number}" for number in range(200)]
        # Concurrency is 4: each of the two kills can have lost four requests.
        assert 200 <= server.requests["echo"] <= 208
    assert RequestStore(tmp_path / "s").counts()["replies"] == 200


def test_the_key_is_in_no_byte_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-loopback-4711")
    with serving() as server:
        for model in ("yes", "401", "html-200"):
            endpoint = Endpoint(model, server.url, key_env="JUDGE_KEY")
            remembered(OpenAIChat(endpoint, limits=Limits(max_retries=0)), tmp_path / "s").complete_many([ask()])
    assert RequestStore(tmp_path / "s").counts() == {"replies": 1, "rejected": 0, "failures": 2}
    assert not any(b"4711" in path.read_bytes() for path in tmp_path.iterdir())


def test_a_stored_reply_can_be_read_without_this_program(tmp_path: Path) -> None:
    remembered(Scripted("red"), tmp_path / "s").complete_many([ask()])
    with sqlite3.connect(tmp_path / "s") as connection:
        identity, request, reply = connection.execute(
            "SELECT identity, request, reply FROM replies JOIN chats ON chats.id = replies.chat"
        ).fetchone()
    assert json.loads(identity) == {"kind": "scripted", "model": "scripted"}
    assert json.loads(request)["messages"] == [{"role": "user", "parts": ["colour?"]}]
    assert json.loads(reply)["text"] == "red"
