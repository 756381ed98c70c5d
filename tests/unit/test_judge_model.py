"""The judge over a chat model: guards, rounds of their own, alignment, both readings, failures, the loopback cases.

pytest tests/unit/test_judge_model.py -q -n 0
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.loopback import LoopbackServer, serving
from trustvid.captioning.checklist import Checklist
from trustvid.errors import ConfigError, DataError
from trustvid.judge.base import Judgement, JudgeTask
from trustvid.judge.model import ModelJudge
from trustvid.judge.openai_compatible import OpenAICompatibleJudge
from trustvid.judge.prompts import JudgePrompts
from trustvid.judge.replay import ReplayJudge
from trustvid.llm.chat import Chat
from trustvid.llm.messages import ChatRequest, Outcome, Reply
from trustvid.llm.stored import remembered

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

LETTERS = ["A. Heron", "B. Goat", "C. Mole", "D. None of the above"]


def rule(number: int, constraint_id: str, description: str = "the whole response", **parameters: Any) -> dict:
    return {
        "check_id": f"rule-{number:03}",
        "constraint_id": constraint_id,
        "check_description": description,
        "parameters": {"content": None, **parameters},
    }


def question(number: int, check_type: str = "attempt", text: str = "Are tags given?", right: str = "yes") -> dict:
    options = ["yes", "no"] if check_type == "attempt" else LETTERS
    return {
        "check_id": f"open-{number:03}",
        "check_type": check_type,
        "question": f"{text} ({number})",
        "options": options,
        "correct_answer": right,
    }


def task(response: str, rules: list[dict] = [], questions: list[dict] = [], name: str = "clip_900/01") -> JudgeTask:  # noqa: B006
    groups = [{"check_content": "tags", "check_items": [item]} for item in questions]
    checklist = Checklist.from_json({"ruled_based_check": rules, "open_ended_check": groups})
    return JudgeTask(name, "Give three tags split by ';'.", response, checklist)


class Answering(Chat):
    """Replies with what a function makes of the request; keeps the requests."""

    parallel = 4

    def __init__(self, reply: Callable[[ChatRequest], str]):
        self.reply, self.requests = reply, []

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"kind": "answering", "model": "answering"}

    async def complete(self, request: ChatRequest, *, fresh: bool = False) -> Outcome:
        self.requests.append(request)
        return Reply(self.reply(request))


def judged(reply: Callable[[ChatRequest], str], one: JudgeTask, upstream: bool = False, **more: Any) -> Judgement:
    return ModelJudge("test", remembered(Answering(reply), None), JudgePrompts(), upstream=upstream, **more).judge(one)


def content(*texts: str) -> str:
    return json.dumps({"content": list(texts)})


def test_every_item_has_its_own_entry_in_the_checklists_order() -> None:
    def reply(request: ChatRequest) -> str:
        text = request.messages[1].text
        if "check_id" in text:
            time.sleep(0.05 if "rule-001" in text else 0)  # replies overtake each other
            return content("goat" if "rule-001" in text else "ladder")
        return json.dumps({"answer": "B" if "(2)" in text else "Yes", "result_confidence": 5})

    one = task(
        "goat; barn; ladder", [rule(1, "length"), rule(2, "case")], [question(1), question(2, "correctness", right="B")]
    )
    strict = judged(reply, one).strict
    assert [(e.check_id, e.content, e.source) for e in strict.extractions] == [
        ("rule-001", ("goat",), "model"),
        ("rule-002", ("ladder",), "model"),
    ]
    assert [(a.check_id, a.answer, a.confidence) for a in strict.answers] == [
        ("open-001", "yes", 5),
        ("open-002", "B", 5),
    ]


def test_the_right_answer_is_not_told() -> None:
    chat = Answering(lambda request: '{"answer": "A"}')
    one = task("goat", [rule(1, "length")], [question(1, "correctness", right="B")])
    ModelJudge("test", remembered(chat, None), JudgePrompts(), rounds=1).judge(one)
    assert len(chat.requests) >= 2 and not any("correct_answer" in m.text for r in chat.requests for m in r.messages)


def test_hallucinated_content_is_asked_again_and_never_used() -> None:
    asked = []

    def reply(request: ChatRequest) -> str:
        asked.append(request)
        return content("zeta") if len(request.messages) == 2 else content("alpha")

    extraction = judged(reply, task("alpha beta", [rule(1, "keyword")])).strict.extractions[0]
    assert extraction.content == ("alpha",) and extraction.rounds == 2
    assert "'zeta' does not stand in the response" in asked[1].messages[-1].text
    assert [message.role for message in asked[1].messages] == ["system", "user", "assistant", "user"]


def test_rounds_are_each_items_own() -> None:
    def reply(request: ChatRequest) -> str:
        return content("made up") if "rule-001" in request.messages[1].text else content("gamma")

    one = task("zeta gamma", [rule(1, "keyword"), rule(2, "keyword")])
    first, second = judged(reply, one).strict.extractions
    assert first.content is None and first.failure.kind == "unreadable" and "'made up'" in first.failure.message
    assert second.content == ("gamma",)


def test_made_up_things_are_not_counted() -> None:
    extraction = judged(lambda _: content("(made up),(things)"), task("goat", [rule(1, "count")])).strict.extractions[0]
    assert extraction.content is None and extraction.failure.kind == "unreadable"


def test_nothing_is_cut_off_a_long_response() -> None:
    response = "x" * 3000 + " END"
    asked = []

    def reply(request: ChatRequest) -> str:
        asked.append(request)
        return content(response if "x END" in request.messages[1].text else response[:2048])

    one = task(response, [rule(1, "prefix_suffix", suffix="END")])
    both = judged(reply, one, upstream=True)
    assert both.strict.extractions[0].content == (response,)
    assert both.upstream.extractions[0].content == (response[:2048],) and len(asked) == 2


def test_a_broken_reply_is_unscored_and_never_no() -> None:
    one = task("goat", [rule(1, "length")], [question(1), question(2, "correctness")])
    strict = judged(lambda _: '{"answer": "ye', one, rounds=2).strict
    failures = [item.failure for item in (*strict.extractions, *strict.answers)]
    assert [failure.kind for failure in failures] == ["unreadable"] * 3
    assert all(item.answer is None for item in strict.answers)
    assert "cut off" in failures[1].message


def test_a_judgement_survives_json() -> None:
    one = task("goat", [rule(1, "length")], [question(1)])
    for reply in (lambda _: '{"answer": "yes", "content": ["goat"]}', lambda _: "?"):
        judgement = judged(reply, one, upstream=True, rounds=1)
        assert Judgement.from_json(json.loads(json.dumps(judgement.to_json()))) == judgement


# ------------------------------------------------------------------------------------------------- upstream reading


def upstream(reply: Callable[[ChatRequest], str], one: JudgeTask) -> Judgement:
    return judged(reply, one, upstream=True)


def test_both_readings_share_their_requests() -> None:
    chat = Answering(lambda request: '{"content": ["goat"], "answer": "yes"}')
    one = task("goat", [rule(1, "length"), rule(2, "case")], [question(1), question(2)])
    judgement = ModelJudge("test", remembered(chat, None), JudgePrompts()).judge(one)
    assert len(chat.requests) == 4
    assert [e.content for e in judgement.upstream.extractions] == [("goat",), ("goat",)]
    assert [a.answer for a in judgement.upstream.answers] == ["yes", "yes"]


def test_upstream_shares_the_failures_of_its_guard_and_inherits_content() -> None:
    def reply(request: ChatRequest) -> str:
        return content("alpha") if "rule-001" in request.messages[1].text else content("zeta gamma")

    one = task("zeta gamma", [rule(1, "keyword"), rule(2, "keyword")])
    both = upstream(reply, one)
    first, second = both.upstream.extractions
    assert (first.content, first.rounds) == (("alpha",), 5)  # rejected five times, and used
    assert (second.content, second.rounds) == (("alpha",), 0)  # never asked, inherited
    assert both.strict.extractions[0].content is None and both.strict.extractions[1].content == ("zeta gamma",)


@pytest.mark.parametrize(
    ("said", "response", "strict", "published"),
    [
        ('{"content": "beta alph"}', "alpha beta", None, ("beta alph",)),
        ('{"content": [""]}', "alpha", (), ("",)),
        ('{"content": ["a\\n b"]}', "a b", ("a b",), ("a\n b",)),
        ('{"text": []}', "alpha", None, None),
        ('{"content": null}', "alpha", None, None),
    ],
)
def test_where_the_guards_differ(
    said: str, response: str, strict: tuple[str, ...] | None, published: tuple[str, ...] | None
) -> None:
    both = upstream(lambda _: said, task(response, [rule(1, "keyword")]))
    assert both.strict.extractions[0].content == strict
    assert both.upstream.extractions[0].content == published
    if published is None:
        assert both.upstream.extractions[0].failure.kind == "upstream_lost"


def test_upstream_counts_what_is_made_up() -> None:
    both = upstream(lambda _: content("(made up),(things)"), task("goat", [rule(1, "count")]))
    assert both.upstream.extractions[0].content == ("(made up),(things)",)


@pytest.mark.parametrize(
    ("said", "check_type", "strict", "published"),
    [
        ("Yes", "attempt", "yes", "Yes"),
        ("c", "correctness", "C", "c"),
        ("(A)", "correctness", "A", "(A)"),
        ("Both", "correctness", None, "B"),
        ("Cannot be determined", "correctness", None, "C"),
        ("Answer: B", "correctness", "B", "A"),
        ("B. Goat", "correctness", "B", "B"),
    ],
)
def test_where_the_answers_differ(said: str, check_type: str, strict: str | None, published: str) -> None:
    both = upstream(lambda _: json.dumps({"answer": said}), task("goat", [], [question(1, check_type)]))
    assert (both.strict.answers[0].answer, both.upstream.answers[0].answer) == (strict, published)


def test_upstream_tries_as_often_as_published() -> None:
    chat = Answering(lambda _: "no JSON")
    one = task("goat", [], [question(1)])
    lost = ModelJudge("test", remembered(chat, None), JudgePrompts(), rounds=1).judge(one).upstream.answers[0]
    assert lost.failure.kind == "upstream_lost" and [request.sample for request in chat.requests] == [0, 1, 2, 3]
    chat = Answering(lambda _: '{"answer": ""}')
    lost = ModelJudge("test", remembered(chat, None), JudgePrompts(), rounds=1).judge(one).upstream.answers[0]
    assert lost.failure.kind == "upstream_lost" and [r.sample for r in chat.requests] == [0, 4, 8, 12, 16]


# ------------------------------------------------------------------------------------------------------------ prompts


def test_published_prompt_files_are_sent_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "rule_based_judge_llm_meta_prompt.txt").write_text("Extract. {{ not a slot }} {braces}\n")
    (tmp_path / "open_ended_judge_llm_meta_prompt.txt").write_text("\ufeffAnswer.")
    prompts = JudgePrompts(str(tmp_path))
    one = task("größer", [rule(1, "length", unit="word")], [question(1)])
    system, user = prompts.extraction("Do it.", one.response, one.checklist.rule_items[0]).messages
    assert system.text == "Extract. {{ not a slot }} {braces}"
    assert '"response": "größer"' in user.text and set(json.loads(user.text)) == {"response", "checkitem"}
    assert json.loads(user.text)["checkitem"] == rule(1, "length", unit="word")
    system, user = prompts.question("Do it.", one.response, one.checklist.open_groups[0].check_items[0]).messages
    assert system.text == "Answer." and list(json.loads(user.text)) == ["prompt", "response", "question", "options"]


@pytest.mark.parametrize("folder", ["full", "compact"])
def test_shipped_prompts_render_everything_they_need(folder: str) -> None:
    prompts = JudgePrompts(folder)
    one = task("goat {{ x }}", [rule(1, "count", "three tags")], [question(1), question(2, "correctness")])
    texts = [prompts.extraction(one.instruction, one.response, one.checklist.rule_items[0]).messages[-1].text]
    texts += [
        prompts.question(one.instruction, one.response, group.check_items[0]).messages[-1].text
        for group in one.checklist.open_groups
    ]
    assert all("goat {{ x }}" in text for text in texts)
    assert "three tags" in texts[0] and "Are tags given? (1)" in texts[1] and "D. None of the above" in texts[2]


def test_a_missing_prompt_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "extract.j2").write_text("x")
    with pytest.raises(ConfigError, match=r"answer\.j2.*compact, full"):
        JudgePrompts(str(tmp_path))


def test_the_digest_follows_the_files(tmp_path: Path) -> None:
    for role in ("extract", "answer"):
        (tmp_path / f"{role}.j2").write_text(role)
    before = JudgePrompts(str(tmp_path))
    (tmp_path / "answer.j2").write_text("other")
    after = JudgePrompts(str(tmp_path))
    item = task("x", [rule(1, "length")]).checklist.rule_items[0]
    assert before.digest != after.digest
    # The extraction prompt has not changed: its stored replies stay valid.
    assert before.extraction("i", "x", item) == after.extraction("i", "x", item)


# ----------------------------------------------------------------------------------------------------- loopback cases


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with serving() as running:
        yield running


def served(server: LoopbackServer, model: str, **settings: Any) -> OpenAICompatibleJudge:
    settings = {"key_env": None, "max_retries": 1, "backoff_s": 0.01, "upstream": False, "rounds": 2, **settings}
    return OpenAICompatibleJudge(model, server.url, **settings)


def ten_questions() -> list[JudgeTask]:
    return [task("goat; barn; ladder", [], [question(1)], name=f"clip_{number:03}/01") for number in range(10)]


def outcomes(judge: OpenAICompatibleJudge | ReplayJudge) -> list[str]:
    items = [item for judgement in judge.judge_many(ten_questions()) for item in judgement.strict.answers]
    return [item.answer or item.failure.kind for item in items]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("ok-json", "yes"),
        ("401", "http_401"),
        ("500-forever", "http_500"),
        ("content-null", "bad_reply"),
        ("no-choices", "bad_reply"),
        ("html-200", "bad_reply"),
        ("cut-json", "unreadable"),
        ("drop", "connection"),
        ("refusing", "refused"),
    ],
)
def test_every_behaviour_ends_every_item(server: LoopbackServer, model: str, expected: str) -> None:
    assert outcomes(served(server, model)) == [expected] * 10


def test_a_slow_judge_is_cut(server: LoopbackServer) -> None:
    started = time.monotonic()
    one = task("goat", [], [question(1)])
    answer = served(server, "slow-30", timeout_s=1.0, max_retries=1).judge(one).strict.answers[0]
    assert answer.failure.kind == "timeout" and time.monotonic() - started < 8 and server.requests["slow-30"] == 2


def test_a_judge_that_is_down_ends_every_item() -> None:
    with serving() as server:
        judge = served(server, "yes", concurrency=2)
    assert set(outcomes(judge)) == {"connection"}


def test_one_bad_item_in_ten_is_unscored_and_the_others_are_not() -> None:
    def reply(body: dict) -> str:
        return "{" if "barn 3" in body["messages"][1]["content"] else "yes"

    with serving(reply) as server:
        tasks = [task(f"goat; barn {number}", [], [question(1)]) for number in range(10)]
        answers = [j.strict.answers[0].answer for j in served(server, "mixed").judge_many(tasks)]
    assert answers == ["yes"] * 3 + [None] + ["yes"] * 6


def test_a_rerun_repairs_what_failed_and_asks_for_nothing_else(tmp_path: Path) -> None:
    said: dict[str, str | None] = {"clip_004": None}

    def reply(body: dict) -> str | None:
        text = body["messages"][1]["content"]
        return next((said[name] for name in said if name in text), "yes")

    tasks = [task(f"clip_{number:03}", [], [question(1)]) for number in range(8)]
    with serving(reply) as server:
        store = str(tmp_path / "store.sqlite")
        first = [j.strict.answers[0].answer for j in served(server, "m", store=store).judge_many(tasks)]
        before = server.requests["m"]
        said["clip_004"] = "yes"
        second = [j.strict.answers[0].answer for j in served(server, "m", store=store).judge_many(tasks)]
        assert first == ["yes"] * 4 + [None] + ["yes"] * 3 and second == ["yes"] * 8
        assert server.requests["m"] == before + 1


def test_a_replay_repeats_a_run_with_the_server_off(tmp_path: Path) -> None:
    def reply(body: dict) -> str | None:
        text = body["messages"][1]["content"]
        number = sum(map(ord, text)) % 5
        return {0: None, 1: "{", 2: '{"content": ["made up"], "answer": "no"}'}.get(
            number, '{"content": ["goat"], "answer": "yes"}'
        )

    store = str(tmp_path / "store.sqlite")
    tasks = [
        task(f"goat {number}", [rule(1, "length"), rule(2, "case")], [question(1)], name=f"clip_{number:03}/01")
        for number in range(30)
    ]
    with serving(reply) as server:
        settings = {"store": store, "upstream": True, "rounds": 3}
        first = [j.to_json() for j in served(server, "mixed", **settings).judge_many(tasks)]
    replay = ReplayJudge(store, rounds=3)
    again = [j.to_json() for j in replay.judge_many(tasks)]
    assert json.dumps(again) == json.dumps(first)
    kinds = {item["failure"]["kind"] for j in first for item in j["strict"]["answers"] if item["failure"]}
    assert kinds == {"bad_reply", "unreadable"}  # the run really had both kinds of trouble
    offline = served(server, "mixed", offline=True, **settings)
    assert [j.to_json() for j in offline.judge_many(tasks)] == first


def test_a_replay_of_nothing_is_not_stored_and_a_missing_store_is_named(tmp_path: Path) -> None:
    store = str(tmp_path / "store.sqlite")
    with serving() as server:
        served(server, "yes", store=store).judge(task("goat", [], [question(1)]))
    other = ReplayJudge(store, upstream=False).judge(task("another response", [], [question(1)]))
    assert other.strict.answers[0].failure.kind == "not_stored"
    with pytest.raises(DataError, match="no stored replies"):
        ReplayJudge(str(tmp_path / "none.sqlite")).judge(task("goat"))


def test_an_unset_key_stops_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
        OpenAICompatibleJudge("gpt-5-mini")


def test_settings_are_checked_together() -> None:
    with pytest.raises(ConfigError) as caught:
        OpenAICompatibleJudge("m", "nowhere", None, temperature=-1, rounds=0, concurrency=0, offline=True)
    assert len(caught.value.faults) == 5, caught.value.faults


def test_a_judge_says_what_it_is_without_its_key(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-loopback-4711")
    judge = served(server, "yes", key_env="JUDGE_KEY", temperature=0.0, upstream=True)
    record = json.dumps(judge.describe())
    assert "4711" not in record and json.loads(record)["readings"] == ["strict", "upstream"]
    assert json.loads(record)["chat"]["sampling"] == {"temperature": 0.0}


def test_many_tasks_are_taken_as_they_are_judged() -> None:
    taken = []

    def tasks() -> Iterator[JudgeTask]:
        for number in range(1000):
            taken.append(number)
            yield task(f"goat {number}", [], [question(1)], name=str(number))

    judge = ModelJudge("test", remembered(Answering(lambda _: "yes"), None), JudgePrompts(), upstream=False)
    judgements = judge.judge_many(tasks())
    assert next(judgements).task_id == "0" and len(taken) <= 8
    judgements.close()
