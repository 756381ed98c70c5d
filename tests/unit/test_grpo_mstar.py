"""Estimators of m*: counting words, real models and servers, the ablation, and what cannot be read.

pytest tests/unit/test_grpo_mstar.py -q -n 0
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from tests.unit.loopback import serving
from trustvid.__main__ import main
from trustvid.agent.method import Question
from trustvid.config.checking import build, check
from trustvid.config.compose import compose_config, group_options
from trustvid.errors import ConfigError
from trustvid.grpo.mstar.base import EstimateError
from trustvid.grpo.mstar.heuristic import HeuristicEstimator, count_words
from trustvid.grpo.mstar.openai_compatible import OpenAICompatibleEstimator
from trustvid.grpo.mstar.policy import NoVideo, PolicyEstimator
from trustvid.grpo.mstar.prompts import MStarPrompts, read_estimate
from trustvid.llm.dialogue import Unreadable
from trustvid.policy.base import PolicyError, PolicyRequest
from trustvid.stages.mstar import MStarConfig
from trustvid.video.source import FrameSource

ROOT = Path(__file__).parents[2]


def q(text: str, *options: str) -> Question:
    return Question(text, options)


# -- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("", 1),
        ("What is this?", 1),
        ("What colour is the car that stops?", 2),  # one clause joined
        ("What happens after the car stops?", 2),  # temporal
        ("Why does the drone turn?", 2),  # causal
        ("Why, because of what, and due to which cause?", 7),  # 4 causal words, and of the 4 joints 2 count
        ("before Before BEFORE", 2),
        ("a b c d e f g h i j k", 1),
        ("a b c d e f g h i j k l", 2),
        ("a b c d e f g h i j k l m n o p q r s t", 3),
        ("It is 1,000 m at 10:30, is it?", 2),  # no joints inside numbers
        (" ".join(["before after during while when then until since first last why because so if"] * 3), 12),
    ],
)
def test_words_are_counted_as_described(question, expected):
    assert count_words(question) == expected


def test_the_heuristic_answers_in_order_and_within_range():
    questions = [q("What is this?", "a", "b"), q("Why does it turn before the bridge?"), q("What is this?", "a", "b")]
    assert HeuristicEstimator().estimate(questions) == [1, 3, 1]
    assert HeuristicEstimator().estimate([]) == []


# -- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "number"),
    [("3", 3), (" 12.\n", 12), ("**2**", 2), ("Number: 4", 4), ("m* = 5", 5), ("<answer> 6 </answer>", 6), ("0", 0)],
)
def test_a_number_alone_is_read(reply, number):
    assert read_estimate(reply) == number


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "three",
        "3 or 4",
        "3-4",
        "-3",
        "2.5",
        "I need 3 sub-queries",
        "1. car\n2. road",
        "<think>3",
        "12345",
        "<answer>",
    ],
)
def test_anything_else_is_not(reply):
    with pytest.raises(Unreadable):
        read_estimate(reply)


# -- prompts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["full", "compact"])
def test_the_prompts_show_question_and_options_and_nothing_else_of_a_sample(folder):
    (system, rules), (user, asked) = MStarPrompts(folder).first(q(" Where is {{ it }}? ", "left", "right"))
    assert (system, user) == ("system", "user") and "1 to 12" in rules and "{{" not in rules
    assert "Question: Where is {{ it }}?\nOptions:\nA. left\nB. right\n" in asked
    assert "Options" not in MStarPrompts(folder).first(q("Where?"))[1][1]


def test_a_users_folder_needs_its_instructions_only(tmp_path):
    with pytest.raises(ConfigError, match=r"mstar\.prompts=.*instructions\.j2.*shipped: compact, full"):
        MStarPrompts(str(tmp_path))
    (tmp_path / "instructions.txt").write_text("Count {objects}.")
    own = MStarPrompts(str(tmp_path))
    assert own.first(q("Where?"))[0][1] == "Count {objects}." and "Where?" in own.first(q("Where?"))[1][1]
    assert (
        own.digest != MStarPrompts().digest and own.digest.partition("-")[2] == MStarPrompts().digest.partition("-")[2]
    )


# -- a server --------------------------------------------------------------------------------------------------------


def served(server: Any, **settings: Any) -> OpenAICompatibleEstimator:
    return OpenAICompatibleEstimator("m", server.url, max_retries=0, backoff_s=0.01, **settings)


def test_a_served_model_is_asked_once_a_question_and_never_again(tmp_path):
    store = str(tmp_path / "replies.sqlite")
    questions = [q("Is it red?"), q("What happens?", "x", "y"), q("Is it red?"), q("What happens?", "x", "z")]

    def reply(body: dict) -> str:
        return "1" if "red" in body["messages"][-1]["content"] else "40"

    with serving(reply) as server:
        estimator = served(server, store=store)
        assert estimator.estimate(questions) == [1, 12, 1, 12] == estimator.estimate(questions)
        assert server.requests["m"] == 3
        assert served(server, store=store).estimate(questions) == [1, 12, 1, 12]
        assert server.requests["m"] == 3
        assert server.bodies[0]["temperature"] == 0.0
    offline = served(server, store=store, offline=True)
    assert offline.estimate(questions) == [1, 12, 1, 12]
    with pytest.raises(EstimateError, match="not_stored"):
        offline.estimate([q("Another?")])


def test_what_cannot_be_read_is_asked_again_then_told_and_kept_out(tmp_path):
    def reply(body: dict) -> str | None:
        asked, rounds = body["messages"][1]["content"], len(body["messages"])
        if "stubborn" in asked:
            return "about three"
        return "many" if "slow" in asked and rounds == 2 else "2"

    questions = [q("stubborn"), q("slow"), q("quick"), q("stubborn")]
    with serving(reply) as server:
        estimator = served(server, rounds=2)
        with pytest.raises(EstimateError) as caught:
            estimator.estimate(questions)
        assert caught.value.estimates == (None, 2, 2, None) and set(caught.value.reasons) == {0, 3}
        assert "2 of 4 questions have no m*" in str(caught.value) and "'about three'" in caught.value.reasons[0]
        again = next(body for body in server.bodies if len(body["messages"]) == 4)
        assert "cannot be used" in again["messages"][3]["content"]
        assert estimator.estimate(questions[1:3]) == [2, 2]
        assert pickle.loads(pickle.dumps(caught.value)).estimates == (None, 2, 2, None)  # noqa: S301


def test_a_server_that_is_down_gives_reasons_not_numbers():
    with serving() as server:
        estimator = served(server)
    with pytest.raises(EstimateError, match="connection"):
        estimator.estimate([q("Is it red?")])


def test_a_record_says_who_was_asked_what(tmp_path):
    with serving() as server:
        record = served(server).describe()
    assert record["chat"]["model"] == "m" and record["prompts"] == "full" and json.dumps(record)


# -- a model in this process -----------------------------------------------------------------------------------------


def lookup_model(folder: Path) -> Path:
    """A real Qwen2 on disk whose weights make it say "3" and end: each next token depends on the last one alone."""
    torch = pytest.importorskip("torch")
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

    tokenizer = Qwen2Tokenizer().train_new_from_iterator(["how many looks does it need 3"], vocab_size=300)
    tokenizer.eos_token = tokenizer.pad_token = "<|endoftext|>"  # noqa: S105
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    sizes = {"hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    settings = Qwen2Config(vocab_size=len(tokenizer), num_key_value_heads=1, **sizes, **ends)
    model = Qwen2ForCausalLM(settings)
    (three,) = tokenizer("3")["input_ids"]
    with torch.no_grad():
        for name, weights in model.named_parameters():
            weights.fill_(1.0 if "norm" in name else 0.0)
        model.model.embed_tokens.weight[:, 0] = 1.0
        model.model.embed_tokens.weight[three] = torch.tensor([0.0, 1.0, 0.0, 0.0])
        model.lm_head.weight[three, 0] = model.lm_head.weight[tokenizer.eos_token_id, 1] = 1.0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow  # imports transformers
def test_a_local_model_is_loaded_and_asked(tmp_path):
    config = OmegaConf.to_container(OmegaConf.load(ROOT / "conf" / "mstar" / "hf_local.yaml"))
    folder = str(lookup_model(tmp_path / "model"))
    changes = {"model": folder, "device": "cpu", "store": str(tmp_path / "replies.sqlite"), "batch_size": 2}
    estimator = build({**config, **changes})
    assert estimator.estimate([q("Is it red?"), q("Why?", "a", "b"), q("Where?")]) == [3, 3, 3]
    assert estimator.name == "model" and len(estimator.describe()["chat"]["weights"]) == 16


# -- policies --------------------------------------------------------------------------------------------------------


class Counting:
    """A policy that says a higher number each time, as one does whose reward rises with it."""

    name = "counting"

    def __init__(self) -> None:
        self.requests: list[PolicyRequest] = []

    def generate(self, requests):
        self.requests += requests
        return [str(len(self.requests) - len(requests) + place + 1) for place in range(len(requests))]


def test_the_trained_policy_is_asked_anew_each_time():
    estimator, policy = PolicyEstimator(), Counting()
    assert estimator.asks_policy and "ablation" in estimator.describe()["asked"]
    with pytest.raises(ConfigError, match="none was given"):
        estimator.estimate([q("Where?")])
    estimator.bind(policy)
    assert [estimator.estimate([q("Where?")]), estimator.estimate([q("Where?")])] == [[1], [2]]
    assert estimator.estimate([q("Where?"), q("Why?"), q("Where?")]) == [3, 4, 3]
    (system, user) = policy.requests[0].messages
    assert (system.role, user.role) == ("system", "user") and "Question: Where?" in user.text and not user.frames


def test_a_frozen_policy_is_asked_once_and_cannot_be_replaced():
    policy = Counting()
    estimator = PolicyEstimator(policy)
    assert not estimator.asks_policy and estimator.name == "counting"
    assert estimator.estimate([q("Where?")]) == estimator.estimate([q("Where?")]) == [1]
    assert estimator.describe()["asked"] == "frozen policy"
    with pytest.raises(ValueError, match="must not replace"):
        estimator.bind(Counting())


class Moody:
    """Fails on some questions, with or without saying on which; needs a second round for others."""

    name = "moody"

    def __init__(self, tells: bool):
        self.tells, self.sizes = tells, []

    def generate(self, requests):
        self.sizes.append(len(requests))
        texts = [request.messages[1].text for request in requests]
        replies = [
            None if "fail" in text else "hm" if "slow" in text and len(request.messages) == 2 else "5"
            for text, request in zip(texts, requests, strict=True)
        ]
        if None in replies:
            known = {place: "out of memory" for place, reply in enumerate(replies) if reply is None}
            raise PolicyError("failed", replies, known) if self.tells else PolicyError("failed")
        return replies


@pytest.mark.parametrize("tells", [True, False])
def test_a_policy_that_fails_on_one_question_answers_the_others(tells):
    estimator = PolicyEstimator(Moody(tells))
    with pytest.raises(EstimateError) as caught:
        estimator.estimate([q("slow"), q("fail"), q("quick"), q("slow too")])
    assert caught.value.estimates == (5, None, 5, 5)
    assert caught.value.reasons == {1: "out of memory" if tells else "failed"}


def test_no_video_is_a_frame_source_without_frames():
    nothing = NoVideo()
    assert isinstance(nothing, FrameSource) and nothing.frames(()).shape == (0, 0, 0, 3)
    for touch in (lambda: nothing.frames([0]), lambda: nothing.frame_key(0)):
        with pytest.raises(IndexError):
            touch()


@pytest.mark.slow  # imports transformers
def test_a_real_vision_language_policy_can_be_asked():
    pytest.importorskip("torch")
    config = OmegaConf.to_container(compose_config(["+mstar=vlm", "policy@mstar.policy=tiny_qwen2_5_vl"]), resolve=True)
    estimator = build(config["mstar"])
    with pytest.raises(EstimateError, match="unreadable"):  # random weights say no number
        estimator.estimate([q("Where is it?", "left", "right")])


# -- configs and the command -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", group_options("mstar"))
def test_every_estimator_is_valid_and_opens_nothing(option, tmp_path):
    overrides = [f"+mstar={option}", f"paths.cache={tmp_path}"]
    config = OmegaConf.to_container(compose_config(overrides), resolve=True)
    check({key: config[key] for key in ("mstar", "policy")}, MStarConfig)
    estimator = build(config["mstar"])
    asks = option in ("policy", "policy_plan")
    assert estimator.name and estimator.asks_policy is asks and not list(tmp_path.iterdir())


@pytest.mark.parametrize("group", ["loss", "advantage", "reward"])
def test_every_part_of_the_objective_builds(group):
    for option in group_options(group):
        assert build(OmegaConf.to_container(OmegaConf.load(ROOT / "conf" / group / f"{option}.yaml")))


def test_faults_come_together():
    with pytest.raises(ConfigError) as caught:
        OpenAICompatibleEstimator("", "nowhere", rounds=0, concurrency=0, offline=True, temperature=-1.0)
    assert len(caught.value.faults) == 6, caught.value.faults


@pytest.mark.parametrize("module", ["heuristic", "hf_local", "openai_compatible", "policy"])
def test_components_import_nothing_heavy(module):
    heavy = {"openai", "torch", "transformers", "sqlite3", "jinja2", "cv2"}
    code = f"import sys, trustvid.grpo.mstar.{module}; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_the_command_prints_the_estimate(capsys):
    assert main(["mstar", "Why does it turn, and when?", "--options", "left, slowly", "right"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Question   Why does it turn, and when?",
        "           A. left, slowly",
        "           B. right",
        "m*         5 (mstar=heuristic)",
    ]
    assert main(["mstar", "What is it?", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"m_star": 1, "estimator": {"mstar": "heuristic", "range": [1, 12]}}


def test_the_command_asks_a_server(capsys):
    with serving(lambda body: "7") as server:
        settings = ["mstar.model=m", f"mstar.base_url={server.url}", "mstar.store=null"]
        assert main(["mstar", "What is it?", "--estimator", "openai_compatible", "--set", *settings]) == 0
    assert "m*         7 (mstar=openai_compatible)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--estimator", "oracle"], "known: heuristic, hf_local, openai_compatible, planner, policy, policy_plan, vlm"),
        (["--options", "one"], "expected 2 to"),
        (["--set", "mstar.nothing=1"], "mstar.nothing"),
        (["--estimator", "policy"], "1 of 1 questions have no m*"),  # the scripted policy knows no such turn
        (["--estimator", "openai_compatible", "--set", "mstar.rounds=0"], "mstar.rounds=0; expected at least 1"),
    ],
)
def test_the_command_refuses_with_a_reason(arguments, said, capsys):
    assert main(["mstar", "What is it?", *arguments]) == 2
    assert said in capsys.readouterr().err
