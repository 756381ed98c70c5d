"""read_text and caption_frame by a vision-language policy: tiny weights from disk, a server, and readings of replies.

pytest tests/unit/test_tools_vlm.py -q
"""

from __future__ import annotations

import json
import math
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from tests.unit.loopback import serving
from trustvid.config.checking import build, check
from trustvid.config.compose import compose_config
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import ConfigError, TrustvidError
from trustvid.policy.base import Message, PolicyRequest
from trustvid.policy.openai_compatible import OpenAICompatiblePolicy
from trustvid.policy.scripted import ScriptedPolicy
from trustvid.policy.tiny import TinyPolicy
from trustvid.policy.vlm import VisionLanguagePolicy
from trustvid.tools.cache import ToolCache, fingerprint
from trustvid.tools.detect_objects import DetectObjects
from trustvid.tools.evidence import TOOL_NAMES, Evidence, FrameBatch, Observation, SubQuery
from trustvid.tools.executor import Executor
from trustvid.tools.vlm import caption_frame, read_text
from trustvid.tools.vlm.asking import Still, json_of
from trustvid.tools.vlm.caption_frame import VlmCaptionFrame, caption_of
from trustvid.tools.vlm.read_text import VlmReadText, texts_of
from trustvid.video.reader import open_clip
from trustvid.video.source import FrameSource

pytest.importorskip("torch")

VIDEO = Path(__file__).resolve().parents[1] / "data" / "videos" / "v01_cfr30_90f.mp4"
QUERY = SubQuery("what is written there?", "text")
TOOLS = {"read_text": VlmReadText, "caption_frame": VlmCaptionFrame}
REPLY = {"read_text": '["CAFE", "PLATFORM 2"]', "caption_frame": '{"caption": "A red box left of a blue one."}'}
EMPTY = {"read_text": "[]", "caption_frame": '{"caption": null}'}
LABELS = {"read_text": ["CAFE", "PLATFORM 2"], "caption_frame": ["A red box left of a blue one."]}
INSTEAD = {"read_text": "tools/read_text=rapidocr", "caption_frame": "tools/caption_frame=embedded"}
every_tool = pytest.mark.parametrize("tool", list(TOOLS))


class Fluent(TinyPolicy):
    """Tiny weights that look at the frames and score replies; what they say is replaced, as they say nothing sensible."""

    def __init__(self, said: Sequence[str], **settings):
        super().__init__(**settings)
        self._said = list(said)

    def generate(self, requests: Sequence[PolicyRequest]) -> list[str]:
        assert all(isinstance(reply, str) for reply in super().generate(requests))
        return [self._said[place % len(self._said)] for place in range(len(requests))]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the tiny model is built, once."""
    return str(tmp_path_factory.mktemp("models"))


def settings(cache: str, **more) -> dict:
    return {"family": "qwen2_5_vl", "cache": cache, "max_new_tokens": 4, "batch_size": 4, **more}


def batch(images: np.ndarray) -> FrameBatch:
    return FrameBatch(images, tuple(range(len(images))), tuple(t / 10 for t in range(len(images))))


def asking(tool: str, image: np.ndarray) -> PolicyRequest:
    """The conversation about one frame."""
    question = {"read_text": read_text.QUESTION, "caption_frame": caption_frame.QUESTION}[tool]
    return PolicyRequest((Message("user", question, (0,)),), Still(image))


def noise(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 56, 84, 3), dtype=np.uint8)


def run(tool, clip=None, frames: Sequence[int] = (5, 40, 80), cache: ToolCache | None = None) -> Evidence:
    clip = clip or open_clip(VIDEO)
    return Executor({tool.name: tool}, cache, time_limit_s=120).run(tool.name, QUERY, clip, frames)


# ---- weights in this process -------------------------------------------------------------------------------------------


@every_tool
def test_it_runs_on_a_real_video_and_a_second_run_comes_from_the_cache(tool, cache, tmp_path):
    backend = TOOLS[tool](Fluent([REPLY[tool]], **settings(cache)))
    backend.load()
    evidence = run(backend, cache=ToolCache(tmp_path))
    assert evidence.error is None and evidence.tool == tool
    assert [seen.frame for seen in evidence.observations] == [f for f in (5, 40, 80) for _ in LABELS[tool]]
    assert {seen.label for seen in evidence.observations} == set(LABELS[tool])
    for seen in evidence.observations:
        assert seen.kind == {"read_text": "text", "caption_frame": "caption"}[tool]
        assert 0 < seen.score < 1 and seen.box is None
    assert LABELS[tool][0] in evidence.result
    assert evidence.intrinsic == pytest.approx(max(0.01, np.mean([seen.score for seen in evidence.observations])))
    again = TOOLS[tool](Fluent([REPLY[tool]], **settings(cache)))
    again.policy.generate = pytest.fail
    assert run(again, cache=ToolCache(tmp_path)) == evidence


@every_tool
def test_the_score_is_the_mean_probability_of_the_replys_tokens(tool, cache):
    policy = Fluent([REPLY[tool], EMPTY[tool]], **settings(cache))
    images = noise(4)
    outputs = TOOLS[tool](policy).observe(batch(images), QUERY, ())
    assert [len(output) for output in outputs] == [len(LABELS[tool]), 0] * 2
    seen = [policy.logprobs([asking(tool, images[place])], [REPLY[tool]])[0] for place in (0, 2)]
    for tokens, output in zip(seen, (outputs[0], outputs[2]), strict=True):
        assert len(tokens) > 3
        assert output[0].score == pytest.approx(math.exp(np.mean(tokens)), abs=2e-4)
    assert seen[0] != pytest.approx(seen[1], abs=1e-5), "it depends on the pixels"
    unsure = TOOLS[tool](policy, min_score=1.0)
    assert unsure.observe(batch(images), QUERY, ()) == [[]] * 4


@every_tool
def test_what_random_weights_say_is_a_failure_not_a_text(tool, cache, tmp_path):
    policy = TinyPolicy(**settings(cache))
    store = ToolCache(tmp_path)
    evidence = run(TOOLS[tool](policy), cache=store)
    assert (evidence.error.kind, evidence.intrinsic, evidence.observations) == ("exception", 0.0, ())
    assert evidence.error.message.startswith(f"{tool}: 3 of 3 replies of policy tiny_qwen2_5_vl cannot be read, e.g. ")
    assert "expected a JSON " in evidence.error.message
    (said,) = policy.generate([asking(tool, open_clip(VIDEO).frames([5])[0])])
    assert repr(" ".join(said.split())) in evidence.error.message, "the first reply is told"
    good = TOOLS[tool](Fluent([REPLY[tool]], **settings(cache)))
    assert run(good, cache=store).error is None, "a failure is not stored"


@every_tool
def test_one_unreadable_reply_fails_the_call(tool, cache):
    backend = TOOLS[tool](Fluent([REPLY[tool], "The sign says CAFE.", EMPTY[tool]], **settings(cache)))
    evidence = run(backend)
    assert "1 of 3 replies" in evidence.error.message and "'The sign says CAFE.'" in evidence.error.message


@every_tool
def test_the_same_pixels_are_read_alike_wherever_they_stand(tool, cache):
    backend = TOOLS[tool](Fluent([REPLY[tool]], **settings(cache)))
    (image,) = noise(1)
    here, there = (backend.observe(FrameBatch(image[None], (k,), (k / 10,)), QUERY, ())[0] for k in (3, 70))
    assert [seen.score for seen in here] == [seen.score for seen in there]
    assert (here[0].frame, there[0].frame, there[0].time) == (3, 70, 7.0)


def test_calls_into_weights_of_this_process_never_overlap(cache):
    """A thread left behind by its time limit still holds the model."""
    inside, most = [0], [0]

    class Slow(Fluent):
        def generate(self, requests):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.1)
            inside[0] -= 1
            return self._said * len(requests)

        logprobs = None

    tools = [TOOLS[name](Slow([REPLY[name]], **settings(cache))) for name in TOOLS]
    threads = [threading.Thread(target=tool.observe, args=(batch(noise(1)), QUERY, ())) for tool in tools * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


@every_tool
def test_weights_are_the_policys_own(tool, cache):
    policy = TinyPolicy(**settings(cache))
    assert TOOLS[tool](policy).load() is policy.load()


# ---- a server: no log-probabilities --------------------------------------------------------------------------------------


def served(tool: str, replies: Sequence[str]):
    """A server that goes through replies, and how to ask it."""
    left = list(replies)
    lock = threading.Lock()

    def reply(body: dict) -> str:
        assert any(part["type"] == "image_url" for message in body["messages"] for part in message["content"])
        with lock:
            return left.pop(0)

    return serving(reply)


@pytest.mark.parametrize(
    ("tool", "replies", "intrinsic"),
    [
        ("read_text", ['["CAFE"]', "[]", '```json\n["CAFE", "BAR"]\n```', "[]"], 0.5),
        ("read_text", ["[]"] * 4, 0.0),
        ("caption_frame", ['{"caption": "' + "x" * 100 + '"}', '{"caption": "' + "y" * 300 + '"}'] * 2, 0.75),
    ],
)
def test_without_log_probabilities_c_is_that_of_the_papers_release(tool, replies, intrinsic):
    with served(tool, replies) as server:
        policy = OpenAICompatiblePolicy("some-model", server.url, concurrency=1)
        backend = TOOLS[tool](policy)
        assert not hasattr(backend, "load")
        evidence = run(backend, ArraySource(noise(4)), range(4))
    assert evidence.error is None and evidence.intrinsic == pytest.approx(intrinsic)
    assert len(server.bodies) == 4


def test_the_share_counts_frames_of_earlier_calls_too(tmp_path):
    clip, store = ArraySource(noise(4)), ToolCache(tmp_path)
    with served("read_text", ["[]", "[]", "[]", '["CAFE"]']) as server:
        tool = VlmReadText(OpenAICompatiblePolicy("some-model", server.url, concurrency=1))
        assert run(tool, clip, [0, 1], store).intrinsic == 0.0
        assert run(tool, clip, range(4), store).intrinsic == pytest.approx(0.25)


def test_a_server_that_is_down_is_a_failure_of_the_call():
    policy = OpenAICompatiblePolicy("m", "http://127.0.0.1:9/v1", max_retries=0, timeout_s=2.0, total_timeout_s=2.0)
    evidence = run(VlmReadText(policy), ArraySource(noise(1)), [0])
    assert evidence.error.kind == "exception" and "the policy gave no reply" in evidence.error.message


# ---- replies -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "texts"),
    [
        ("[]", []),
        ('["CAFE"]', ["CAFE"]),
        ('  ["CAFÉ 7", "出口"]\n', ["CAFÉ 7", "出口"]),
        ('```json\n["A B"]\n```', ["A B"]),
        ('```\n["A"]```', ["A"]),
        ('<think>["no"] hm</think>\n["yes"]', ["yes"]),
        ('["a", "A", "a", " a ", ""]', ["a", "A"]),
        ('["two\\nlines"]', ["two lines"]),
        *((reply, None) for reply in (
            "", "NONE", "CAFE", "[CAFE]", "['CAFE']", '["CAFE"', '["CAFE"] is written there.', 'Text: ["CAFE"]',
            '{"text": ["CAFE"]}', '"CAFE"', "null", '["CAFE", null]', '["CAFE", 7]', '[["CAFE"]]', '["A"]["B"]',
            "[" * 100_000, '<think>["CAFE"]', '```json\n["A"]\n``` and more',
        )),
    ],
)  # fmt: skip
def test_texts_are_read_strictly(reply, texts):
    if texts is None:
        with pytest.raises(ValueError, match=r"."):
            texts_of(reply)
    else:
        assert texts_of(reply) == texts


@pytest.mark.parametrize(
    ("reply", "caption"),
    [
        ('{"caption": "A red car."}', "A red car."),
        ('```json\n{"caption": "A\\n red car."}\n```', "A red car."),
        ('{"caption": null}', ""),
        ('{"caption": " "}', ""),
        *((reply, None) for reply in (
            "", "A red car.", "I cannot see the picture.", '{"caption": "A red', '{"caption": 3}', '{"caption": ["a"]}',
            '{"captions": "a"}', '{"caption": "a", "more": 1}', '["a"]', "{}", '"a"',
        )),
    ],
)  # fmt: skip
def test_captions_are_read_strictly(reply, caption):
    if caption is None:
        with pytest.raises(ValueError, match=r"."):
            caption_of(reply)
    else:
        assert caption_of(reply) == caption


def test_thoughts_and_fences_are_no_part_of_the_json():
    assert json_of('<think>{"a": 1}</think>{"b": 2}') == {"b": 2}
    with pytest.raises(ValueError, match=r"."):
        json_of('{"a": 1} {"b": 2}')


# ---- settings ------------------------------------------------------------------------------------------------------------


@every_tool
def test_contract(tool, cache):
    backend = TOOLS[tool](TinyPolicy(**settings(cache)))
    cost = {"read_text": 0.25, "caption_frame": 0.30}[tool]
    assert backend.name in TOOL_NAMES
    assert (backend.name, backend.cost, backend.span, backend.reads_query) == (tool, cost, "frame", False)
    assert backend.summarise([])[1] == 0.0 and backend.summarise([])[0].startswith("no")
    assert isinstance(Still(noise(1)[0]), FrameSource)


@every_tool
def test_settings_hold_what_changes_a_reply(tool, cache, tmp_path):
    TinyPolicy(**settings(cache)).load()

    def key(**more) -> str:
        return fingerprint(TOOLS[tool](TinyPolicy(**settings(cache, **more))), QUERY, ())

    json.dumps(TOOLS[tool](TinyPolicy(**settings(cache))).settings())
    loaded = TOOLS[tool](TinyPolicy(**settings(cache)))
    loaded.load()
    assert key() == key(batch_size=1, name="another") == fingerprint(loaded, QUERY, ())
    changes = [{"max_new_tokens": 5}, {"do_sample": True}, {"seed": 1}, {"frames_as": "images"}, {"dtype": "bfloat16"}]
    changes += [{"weights_seed": 1}, {"family": "qwen3_vl"}, {"repetition_penalty": 1.1}]
    keys = [key(), *(key(**change) for change in changes)]
    keys.append(fingerprint(TOOLS[tool](TinyPolicy(**settings(cache)), min_score=0.5), QUERY, ()))
    assert len(set(keys)) == len(keys)

    def of_server(**more) -> str:
        return fingerprint(TOOLS[tool](OpenAICompatiblePolicy(**{"model": "m", **more})), QUERY, ())

    assert of_server() == of_server(timeout_s=1.0, concurrency=2, store=str(tmp_path / "s.sqlite"), name="x")
    changes = [{"model": "n"}, {"temperature": 0.5}, {"longest_side": 64}, {"image_format": "png"}]
    changes += [{"extra": {"top_k": 1}}, {"base_url": "http://10.0.0.1/v1"}]
    keys = [of_server(), *(of_server(**change) for change in changes)]
    assert len(set(keys)) == len(keys)


def test_weights_that_were_trained_anew_are_others(cache, tmp_path):
    trained = tmp_path / "adapter"
    trained.mkdir()

    def key() -> str:
        policy = VisionLanguagePolicy("a/b", init_from=str(trained))
        return fingerprint(VlmReadText(policy), QUERY, ())

    keys = [fingerprint(VlmReadText(VisionLanguagePolicy("a/b")), QUERY, ())]
    for text in ("one", "two"):
        (trained / "adapter.safetensors").write_text(text)
        keys.append(key())
    assert len(set(keys)) == 3


def test_what_is_copied_to_another_folder_is_the_same_model(cache, tmp_path):
    TinyPolicy(**settings(cache)).load()
    shutil.copytree(cache, tmp_path / "copy")
    here, there = (VlmReadText(TinyPolicy(**settings(folder))).settings() for folder in (cache, str(tmp_path / "copy")))
    assert here == there and here["policy"]["weights"]["weights"]


@every_tool
def test_the_runs_own_policy_is_the_default(tool):
    from omegaconf import OmegaConf

    config = compose_config([f"tools/{tool}=vlm", "policy=tiny_qwen2_5_vl", "policy.max_new_tokens=7"])
    config = OmegaConf.to_container(config, resolve=True)
    assert config["tools"][tool]["policy"] == config["policy"]
    check(config, EvaluateConfig)
    backend = build(config["tools"][tool])
    assert isinstance(backend, TOOLS[tool]) and backend.policy.decoding.max_new_tokens == 7


@every_tool
def test_policies_that_cannot_see_are_refused_with_the_way_out(tool):
    from omegaconf import OmegaConf

    config = OmegaConf.to_container(compose_config([f"tools/{tool}=vlm"]), resolve=True)
    with pytest.raises(ConfigError) as caught:
        check(config, EvaluateConfig)
    (fault,) = caught.value.faults
    assert fault == (
        f"{tool}.policy is a ScriptedPolicy, which reads words and cannot see pixels; expected a vision-language "
        f"policy, e.g. policy=qwen2_5_vl_7b, or use {INSTEAD[tool]}, which needs none"
    )
    with pytest.raises(ConfigError) as caught:
        TOOLS[tool](DetectObjects(), min_score=2.0)
    assert len(caught.value.faults) == 2 and "is a DetectObjects; expected a component of the group policy" in str(
        caught.value
    )
    with pytest.raises(ConfigError, match="cannot see pixels"):
        TOOLS[tool](ScriptedPolicy())


def test_missing_weights_tell_the_way_out():
    tool = VlmCaptionFrame(VisionLanguagePolicy("trustvid-tests/no-such-vlm", offline=True))
    with pytest.raises(TrustvidError, match="hf download trustvid-tests/no-such-vlm"):
        tool.load()
    evidence = run(tool, ArraySource(noise(1)), [0])
    assert evidence.error.kind == "exception" and "hf download" in evidence.error.message


def test_words_are_told_by_first_sight():
    tool = VlmReadText(OpenAICompatiblePolicy("m"))
    seen = [Observation(0, 0.0, "text", "CAFE", 1.0), Observation(3, 0.3, "text", "BAR", 1.0)]
    assert tool.summarise_of(seen, 8) == (
        'text: "CAFE" (at 0.0 s, score 1.00); "BAR" (at 0.3 s, score 1.00)',
        pytest.approx(0.25),
    )
