"""The served policy against a loopback server: same answers as whoever sits behind it, true pictures, typed failures.

pytest tests/unit/test_policy_openai_compatible.py -q -n 0
"""

from __future__ import annotations

import base64
import itertools
import json
import logging
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from omegaconf import OmegaConf

from tests.unit.fakes import ArraySource
from tests.unit.loopback import LoopbackServer, serving
from trustvid.config.checking import build, check
from trustvid.config.compose import compose_config
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import ConfigError, TrustvidError
from trustvid.evaluation import caption_runner, runner
from trustvid.evaluation.pool import Unit, UnitEvent, Work, run_units
from trustvid.policy.base import Message, PolicyError, PolicyRequest
from trustvid.policy.openai_compatible import OpenAICompatiblePolicy
from trustvid.policy.scripted.policy import ScriptedPolicy

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

ROOT = Path(__file__).resolve().parents[2]
SERVED = ("policy=openai_compatible", "policy.model=vlm", "policy.max_retries=1", "policy.backoff_s=0.01")


def text_of(message: dict[str, Any]) -> str:
    """The words of a message: what stands after the pictures, where there are any."""
    content = message["content"]
    return content if isinstance(content, str) else content[-1]["text"]


def as_scripted(body: dict[str, Any]) -> str:
    """What the scripted policy says to the texts of a request."""
    messages = tuple(Message(message["role"], text_of(message)) for message in body["messages"])
    return ScriptedPolicy().generate([PolicyRequest(messages, None)])[0]


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with serving(as_scripted) as running:
        yield running


def gradient(side: tuple[int, int] = (48, 64), n: int = 40) -> np.ndarray:
    """Smooth frames, each of its own brightness, red to the right and green downwards."""
    down, right = np.mgrid[0 : side[0], 0 : side[1]]
    frames = np.empty((n, *side, 3), np.uint8)
    for index in range(n):
        frames[index] = np.stack([right * 2, down * 3, np.full(side, 6 * index)], axis=-1)
    return frames


def request(*messages: Message, clip: ArraySource | None = None) -> PolicyRequest:
    return PolicyRequest(messages or (Message("user", "Is it red?"),), clip or ArraySource(gradient(), fps=10))


def policy(server: LoopbackServer, model: str = "yes", **settings: Any) -> OpenAICompatiblePolicy:
    settings = {"max_retries": 1, "backoff_s": 0.01, **settings}
    return OpenAICompatiblePolicy(model, server.url, **settings)


# ------------------------------------------------------------------------------------- the same answers, in evaluations


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two generated clips and tool outputs, shared by the tests."""
    return tmp_path_factory.mktemp("cache")


def composed(cache: Path, *overrides: str) -> dict[str, Any]:
    base = (f"paths.cache={cache}", "benchmark.n_videos=2", "benchmark.workers=1", "corruption=[]")
    return OmegaConf.to_container(compose_config((*base, *overrides)), resolve=True)


def units(config: dict[str, Any]) -> list[dict[str, Any]]:
    """All questions of the set, video by video."""
    samples, rejected = build(config["benchmark"]).samples()
    assert len(samples) == 8 and not rejected
    by_video = itertools.groupby(sorted(samples, key=lambda sample: str(sample.video)), key=lambda s: str(s.video))
    return [{"video": v, "samples": [runner.sample_record(s) for s in found], "done": []} for v, found in by_video]


def answers(config: dict[str, Any]) -> list[dict[str, Any]]:
    worker = runner.set_up(config)
    return [record for unit in units(config) for group in runner.answer_video(worker, unit) for record in group]


def keyed(records: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(r["prediction"]["sample_id"], r["prediction"]["method"]): r["prediction"] for r in records}


def test_a_server_that_speaks_as_the_scripted_policy_gives_its_answers(server: LoopbackServer, cache: Path) -> None:
    methods = ("methods=[blind,anchored]", "routing@methods.blind.routing=policy", "save_trajectories=true")
    theirs = answers(composed(cache, *methods))
    config = composed(cache, *methods, *SERVED, f"policy.base_url={server.url}", "policy.store=null")
    mine = answers(config)
    assert len(mine) == 8 * 2 and mine == theirs  # scores, confidences, tiers, and every word of the conversations
    assert server.requests["vlm"] == 8 * (3 + 2)

    blind = [record["trajectory"] for record in mine if record["prediction"]["method"] == "blind"]
    bodies = [body for body in server.bodies if len(body["messages"]) == 6]  # the last of three turns
    assert len(blind) == len(bodies) == 8
    clips = {Path(unit["video"]).stem: build(config["reader"]).open(Path(unit["video"])) for unit in units(config)}
    by_question = {text_of(body["messages"][1]): body for body in bodies}
    for trajectory in blind:
        asked = by_question[trajectory["messages"][1]["text"]]["messages"]
        assert [isinstance(message["content"], str) for message in asked] == [True, False, True, True, True, True]
        shown = pictures(asked[1])
        assert [index for index, *_ in shown] == list(trajectory["frames"]) and len(shown) == 8
        assert any(
            all(
                abs(seconds - clip.timestamps[index]) < 0.006
                and np.abs(pixels.astype(int) - clip.frames([index])[0]).mean() < 6
                for index, seconds, pixels in shown
            )
            for clip in clips.values()
            if (clip.height, clip.width) == shown[0][2].shape[:2] and clip.n_frames > shown[-1][0]
        )


def test_workers_answer_alike_and_never_ask_twice(cache: Path, tmp_path: Path) -> None:
    """Spawned processes over one store, each with the same units."""
    methods = ("methods=[no_evidence]", "save_trajectories=true")

    def slowly(body: dict[str, Any]) -> str:
        time.sleep(0.05)  # so that both workers want the same reply at the same time
        return as_scripted(body)

    with serving(slowly) as server:
        config = composed(
            cache, *methods, *SERVED, f"policy.base_url={server.url}", f"policy.store={tmp_path / 'replies.sqlite'}"
        )
        OpenAICompatiblePolicy("vlm", server.url, store=config["policy"]["store"]).generate([request()])
        found: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}

        def on_result(event: UnitEvent) -> None:
            assert event.kind != "failed", event.detail
            found[event.unit.name[0]] += event.records

        twice = [Unit(f"{name}{n}", unit) for n, unit in enumerate(units(config)) for name in found]
        run_units(twice, Work(runner.set_up, runner.answer_video, config), 2, 60.0, on_result)
        theirs = keyed(answers(composed(cache, *methods)))
        assert keyed(found["a"]) == keyed(found["b"]) == theirs and len(theirs) == 8
        assert server.requests["vlm"] == 1 + 8


def test_what_failed_for_good_is_unscored_and_the_other_questions_are_not(cache: Path) -> None:
    config = composed(cache, "methods=[blind]")
    unlucky = [sample["question"] for unit in units(config) for sample in unit["samples"]][:5]
    behaviours = ["as 500-forever", "as html-200", "as slow-20", "as drop", "as refusing"]
    bad = dict(zip(unlucky, behaviours, strict=True))

    def reply(body: dict[str, Any]) -> str:
        text = "".join(text_of(message) for message in body["messages"])
        return next((bad[question] for question in bad if question in text), None) or as_scripted(body)

    with serving(reply) as server:
        settings = ("policy.store=null", "policy.timeout_s=1.0", "policy.give_up_after=9")
        records = answers(composed(cache, "methods=[blind]", *SERVED, f"policy.base_url={server.url}", *settings))
    theirs = keyed(answers(config))
    names = {s["id"]: s["question"] for unit in units(config) for s in unit["samples"]}
    reasons = {}
    for key, prediction in keyed(records).items():
        if names[key[0]] in bad:
            assert prediction["status"] == "unscored" and prediction["score"] is None
            reasons[bad[names[key[0]]]] = prediction["reason"]
        else:
            assert prediction == theirs[key]
    assert "code 1" in reasons["as 500-forever"] and "http_500" in reasons["as 500-forever"]
    assert "<html>gateway</html>" in reasons["as html-200"]
    assert "no reply within 1 s" in reasons["as slow-20"]
    assert "no connection to vlm" in reasons["as drop"]
    assert "I cannot help with that." in reasons["as refusing"]


def test_a_run_repeats_offline_with_the_server_gone(cache: Path, tmp_path: Path) -> None:
    store = tmp_path / "replies.sqlite"
    doomed: list[str] = []

    def reply(body: dict[str, Any]) -> str:
        text = "".join(text_of(message) for message in body["messages"])
        return "as 500-forever" if any(question in text for question in doomed) else as_scripted(body)

    with serving(reply) as server:
        served = (*SERVED, f"policy.base_url={server.url}", f"policy.store={store}")
        config = composed(cache, "methods=[blind]", *served)
        doomed.append(units(config)[0]["samples"][1]["question"])
        first = answers(config)
        asked = server.requests["vlm"]
        assert asked == 7 * 2 + 2 and [r["prediction"]["status"] for r in first].count("unscored") == 1
        offline = {**config, "policy": {**config["policy"], "offline": True, "key_env": "NOT_SET"}}
        assert answers(offline) == first  # the failure with its reason included
        doomed.clear()
        repaired = answers(config)
        assert server.requests["vlm"] == asked + 2  # the two turns of the question that had failed, and nothing else
    assert answers(offline) == repaired
    assert [record["prediction"]["status"] for record in repaired].count("unscored") == 0
    other = answers({**offline, "policy": {**offline["policy"], "temperature": 0.5}})
    assert {record["prediction"]["reason"] for record in other} == {
        "the policy gave no reply (not_stored): no reply is stored for this request to vlm (localhost), and nobody may "
        "be asked"
    }


def test_captions_are_written_and_a_failed_one_has_its_reason(server: LoopbackServer, cache: Path) -> None:
    unit = {
        "video": units(composed(cache))[0]["video"],
        "captioner": "vlm",
        "tasks": [
            {"id": "clip/01", "instruction": "Write exactly 3 sentences. Begin with 'Report:'."},
            {"id": "clip/02", "instruction": "Give five tags separated by ';'."},
        ],
    }

    def written(*overrides: str) -> list[dict[str, Any]]:
        worker = caption_runner.set_up(composed(cache, "frames=4", *overrides))
        return [record for group in caption_runner.caption_video(worker, unit) for record in group]

    served = (*SERVED, f"policy.base_url={server.url}", "policy.store=null")
    mine, theirs = written(*served), written()
    assert [record["text"] for record in mine] == [record["text"] for record in theirs]
    assert mine[0]["text"].startswith("Report:") and server.requests["vlm"] == 2
    assert all(len(pictures(body["messages"][1])) == 4 for body in server.bodies)
    lost = written(*served, "policy.model=500-forever")
    assert [record["text"] for record in lost] == [None, None] and "code 1" in lost[0]["reason"]


# ------------------------------------------------------------------------------------------------------------- pictures


def pictures(message: dict[str, Any]) -> list[tuple[int, float, np.ndarray]]:
    """Index, seconds and pixels (RGB) of a message's pictures, in order; checks how they are laid out."""
    *shown, text = message["content"]
    assert text["type"] == "text" and len(shown) % 2 == 0
    found = []
    for label, picture in zip(shown[::2], shown[1::2], strict=True):
        assert label["type"] == "text" and picture["type"] == "image_url"
        word, index, seconds, unit = label["text"].replace(",", "").split()
        assert (word, unit) == ("frame", "s")
        head, data = picture["image_url"]["url"].split(",")
        assert head in ("data:image/jpeg;base64", "data:image/png;base64")
        pixels = cv2.imdecode(np.frombuffer(base64.b64decode(data, validate=True), np.uint8), cv2.IMREAD_COLOR)
        found.append((int(index), float(seconds), cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)))
    return found


CONVERSATION = (
    Message("system", "You watch videos."),
    Message("user", "First look.", (0, 31, 7)),
    Message("assistant", "Seen."),
    Message("user", "Second look.", (39,)),
    Message("user", "What is it?"),
)


def test_pictures_come_before_the_words_in_order_with_true_times(server: LoopbackServer) -> None:
    policy(server, image_format="png", temperature=0.0, extra={"top_k": 1}).generate([request(*CONVERSATION)])
    (body,) = server.bodies
    assert {key: body[key] for key in body if key != "messages"} == {"model": "yes", "temperature": 0.0, "top_k": 1}
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user", "user"]
    assert [body["messages"][place]["content"] for place in (0, 2, 4)] == ["You watch videos.", "Seen.", "What is it?"]
    first, second = body["messages"][1], body["messages"][3]
    assert first["content"][2]["text"] == "frame 31, 3.10 s"
    assert (text_of(first), text_of(second)) == ("First look.", "Second look.")
    shown = pictures(first) + pictures(second)
    assert [(index, seconds) for index, seconds, _ in shown] == [(0, 0.0), (31, 3.1), (7, 0.7), (39, 3.9)]
    for index, _, pixels in shown:
        assert np.array_equal(pixels, gradient()[index])


@pytest.mark.parametrize(
    ("side", "settings", "size", "error"),
    [
        ((48, 64), {}, (48, 64), 4.0),
        ((48, 64), {"longest_side": 64, "image_format": "png"}, (48, 64), 0.0),
        ((48, 64), {"longest_side": 32}, (24, 32), 4.0),
        ((64, 48), {"longest_side": 32}, (32, 24), 4.0),
        ((6, 80), {"longest_side": 4, "image_format": "png"}, (1, 4), 3.0),
        ((48, 64), {"longest_side": None}, (48, 64), 4.0),
    ],
)
def test_pictures_have_the_size_asked_for(
    server: LoopbackServer, side: tuple[int, int], settings: dict[str, Any], size: tuple[int, int], error: float
) -> None:
    frames = gradient(side)
    policy(server, **settings).generate([request(Message("user", "?", (20,)), clip=ArraySource(frames))])
    ((_, _, pixels),) = pictures(server.bodies[0]["messages"][0])
    assert pixels.shape == (*size, 3)
    expected = cv2.resize(frames[20], size[::-1], interpolation=cv2.INTER_AREA)
    assert np.abs(pixels.astype(int) - expected).mean() <= error


def test_quality_is_what_it_says(server: LoopbackServer) -> None:
    noise = np.random.default_rng(3).integers(0, 256, (1, 48, 64, 3), dtype=np.uint8)
    message = Message("user", "?", (0,))
    for quality in (30, 95):
        policy(server, jpeg_quality=quality).generate([request(message, clip=ArraySource(noise))])
    low, high = (len(body["messages"][0]["content"][1]["image_url"]["url"]) for body in server.bodies)
    assert 2 * low < high


# ------------------------------------------------------------------------------------------------------------ the store


def test_what_was_answered_is_not_asked_again_and_pictures_are_not_stored(
    server: LoopbackServer, tmp_path: Path
) -> None:
    store = tmp_path / "replies.sqlite"
    for _ in range(2):  # two policies over one file
        assert policy(server, store=str(store)).generate([request(*CONVERSATION)] * 3) == ["yes"] * 3
    assert server.requests["yes"] == 1
    sent = json.dumps(server.bodies[0])
    with closing(sqlite3.connect(store)) as connection:
        (kept,) = connection.execute("SELECT request FROM replies").fetchone()
    parts = json.loads(kept)["messages"][1]["parts"]
    assert [part if isinstance(part, str) else sorted(part) for part in parts[:3]] == [
        "frame 0, 0.00 s",
        ["image", "media_type"],
        "frame 31, 3.10 s",
    ]
    assert len(kept) < 1500 < len(sent) and "base64" not in kept and "First look." in kept


def changed_pixel() -> ArraySource:
    frames = gradient()
    frames[31, 5, 9] ^= 255
    return ArraySource(frames, fps=10)


LOOK = Message("user", "First look.", (31,))


@pytest.mark.parametrize(
    ("settings", "other"),
    [
        ({}, request(LOOK, clip=changed_pixel())),
        ({}, request(LOOK, clip=ArraySource(gradient(), fps=12))),
        ({}, request(Message("user", "First look!", (31,)))),
        ({}, request(Message("user", "First look.", (30,)))),
        ({}, request(Message("user", "First look."))),
        ({"temperature": 0.5}, request(LOOK)),
        ({"seed": 2}, request(LOOK)),
        ({"extra": {"top_k": 3}}, request(LOOK)),
        ({"longest_side": 32}, request(LOOK)),
        ({"jpeg_quality": 80}, request(LOOK)),
        ({"served_by": "another"}, request(LOOK)),
    ],
    ids=["pixel", "time", "words", "frame", "no frame", "temperature", "seed", "extra", "size", "quality", "server"],
)
def test_whatever_can_change_the_reply_is_another_question(
    server: LoopbackServer, tmp_path: Path, settings: dict[str, Any], other: PolicyRequest
) -> None:
    common = {"store": str(tmp_path / "replies.sqlite"), "temperature": 0.0, "seed": 1}
    policy(server, **common).generate([request(LOOK)])
    policy(server, **common, concurrency=2, timeout_s=30.0, name="renamed").generate([request(LOOK)])
    assert server.requests["yes"] == 1
    policy(server, **{**common, **settings}).generate([other])
    assert server.requests["yes"] == 2


# ------------------------------------------------------------------------------------------------------------- failures


def test_a_busy_server_is_asked_again_after_the_pause_it_wants(server: LoopbackServer) -> None:
    started = time.monotonic()
    assert policy(server, "429x2-then-yes", max_retries=2).generate([request()]) == ["yes"]
    assert server.requests["429x2-then-yes"] == 3 and time.monotonic() - started >= 2


@pytest.mark.parametrize(
    ("model", "said", "requests"),
    [
        ("500-forever", r"\(http_500\): 500-forever at .* answered 500: .*code 1", 3),
        ("no-choices", r"\(bad_reply\): .* no chat completion", 3),
        ("content-null", r"\(bad_reply\): the reply has no content", 3),
        ("refusing", r"\(refused\): .*I cannot help", 1),
        ("401", r"\(http_401\): .*check the key", 1),
    ],
)
def test_a_failure_is_an_error_with_the_servers_reason(
    server: LoopbackServer, model: str, said: str, requests: int
) -> None:
    with pytest.raises(PolicyError, match=said) as caught:
        policy(server, model, max_retries=2).generate([request()])
    assert isinstance(caught.value, TrustvidError) and server.requests[model] == requests


def test_a_server_that_hangs_is_cut(server: LoopbackServer) -> None:
    started = time.monotonic()
    with pytest.raises(PolicyError, match=r"timeout.*0\.5 s"):
        policy(server, "slow-20", timeout_s=0.5).generate([request()])
    assert time.monotonic() - started < 5 and server.requests["slow-20"] == 2


def test_one_failure_in_a_list_loses_no_reply() -> None:
    def reply(body: dict[str, Any]) -> str:
        return "as 500-forever" if text_of(body["messages"][0]) == "2" else text_of(body["messages"][0])

    with serving(reply) as server:
        asked = [request(Message("user", str(number))) for number in range(4)]
        echo = policy(server, "echo", max_retries=0)
        with pytest.raises(PolicyError, match="code 1"):
            echo.generate(asked)
        assert echo.generate([asked[3], asked[0]]) == ["3", "0"] and server.requests["echo"] == 4


def test_a_dead_server_is_given_up() -> None:
    with serving() as server:
        gone = policy(server, give_up_after=2, max_retries=0)
    reasons = []
    for number in range(4):
        with pytest.raises(PolicyError) as caught:
            gone.generate([request(Message("user", str(number)))])
        reasons.append(str(caught.value))
    assert ["not sent, for 2 requests in a row failed" in reason for reason in reasons] == [False, False, True, True]
    assert all("(connection)" in reason and "no connection to yes" in reason for reason in reasons)


# -------------------------------------------------------------------------------------------------- settings, keys, cost


def test_an_unset_key_is_one_message_that_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLM_KEY", raising=False)
    with pytest.raises(ConfigError, match="VLM_KEY is not set") as caught:
        OpenAICompatiblePolicy("m", key_env="VLM_KEY")
    assert len(caught.value.faults) == 1


def test_the_key_is_sent_and_shown_nowhere(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("VLM_KEY", "sk-loopback-4711")
    caplog.set_level(logging.DEBUG)
    store = tmp_path / "replies.sqlite"
    with pytest.raises(PolicyError, match=r"bad key: Bearer \*\*\*") as caught:  # the server repeats what it was sent
        policy(server, "401", key_env="VLM_KEY", store=str(store)).generate([request()])
    keyed = policy(server, "yes", key_env="VLM_KEY", store=str(store))
    assert keyed.generate([request()]) == ["yes"]
    for shown in (str(caught.value), caplog.text, repr(vars(keyed)), store.read_bytes().decode("latin1")):
        assert "4711" not in shown


def test_faults_come_together_through_the_config(cache: Path, tmp_path: Path) -> None:
    wrong = ["model=''", "base_url=nowhere", "temperature=-1", "max_tokens=0", "jpeg_quality=0", "image_format=gif"]
    wrong += ["longest_side=0", "concurrency=0", f"store={tmp_path}/none.sqlite", "offline=true"]
    with pytest.raises(ConfigError) as caught:
        check(
            composed(cache, "policy=openai_compatible", "+policy.extra.n=2", *(f"policy.{w}" for w in wrong)),
            EvaluateConfig,
        )
    text = str(caught.value)
    assert len(caught.value.faults) == len(wrong), text  # store and offline are one fault, extra.n is another
    for part in (
        "model is empty",
        "base_url is no address",
        "temperature=-1",
        "known: jpeg, png",
        "no replies at",
        "extra.n has",
    ):
        assert part in text
    with pytest.raises(ConfigError, match=r"offline=true needs the stored replies .*policy\.store=…"):
        OpenAICompatiblePolicy("m", offline=True)


def test_configs_compose_and_record_the_decoding(cache: Path) -> None:
    config = composed(cache, "policy=openai_compatible", "policy.model=x", "policy.key_env=null")
    assert build(config["policy"]).name == "x" and config["policy"]["store"] == f"{cache}/policy/replies.sqlite"
    assert not Path(config["policy"]["store"]).parent.exists()  # building opens no store
    check(config, EvaluateConfig)
    preset = composed(cache, "policy=vllm_qwen2_5_vl_7b")["policy"]
    assert (preset["model"], preset["base_url"]) == ("Qwen/Qwen2.5-VL-7B-Instruct", "http://127.0.0.1:8000/v1")
    assert (preset["temperature"], preset["top_p"], preset["extra"]) == (0.1, 0.001, {"repetition_penalty": 1.05})
    assert set(preset) == set(config["policy"])


def test_a_policy_is_built_without_its_client() -> None:
    heavy = {"openai", "httpx2", "cv2", "sqlite3", "torch", "tenacity"}
    code = (
        "import sys; from trustvid.policy.openai_compatible import OpenAICompatiblePolicy as P; P('m', store='x.sqlite')"
        f"; print(sorted({heavy!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
