"""GRPO with rollouts from a server: a loopback stand-in for vLLM, which has weights of its own to be wrong with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from tests.unit.vllm_stand_in import Served, error, serving_vllm
from trustvid.errors import ConfigError, TrustvidError
from trustvid.grpo.episodes import Episode, Outcome, ToolCall
from trustvid.grpo.reward import Reward, RewardInputs
from trustvid.grpo.settings import AdvantageConfig, LossConfig
from trustvid.policy.base import Message, PolicyRequest
from trustvid.training.optimizer import AdamW
from trustvid.training.order import StepOrder

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from lightning import Trainer  # noqa: E402
from lightning.pytorch.callbacks import Callback  # noqa: E402

from trustvid.grpo.rollout import roll_out  # noqa: E402
from trustvid.grpo.vllm_engine import VllmEngine, same_prompt  # noqa: E402
from trustvid.module import RobustTO  # noqa: E402
from trustvid.policy.tiny import TinyPolicy  # noqa: E402
from trustvid.policy.vlm_adapters import Full, Lora  # noqa: E402

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

SMALL = {"hidden_size": 48, "layers": 2, "heads": 2, "kv_heads": 1, "frames_as": "images"}
TURNS = [6, 4]  # longest replies


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    return str(tmp_path_factory.mktemp("models"))


@pytest.fixture
def served(cache: str) -> Iterator[Served]:
    with serving_vllm(TinyPolicy("qwen2_5_vl", cache, **SMALL)) as running:
        yield running


# ----------------------------------------------------------------------------------------------------- what is trained


class Words:
    """What a conversation without frames is about."""

    def __init__(self, name: str):
        self.digest = name

    def frame_key(self, index: int) -> str:
        raise IndexError(index)


class Asking:
    """Two turns about a word. The reward is the share of odd characters in the replies, so that samples differ."""

    def __len__(self) -> int:
        return 8

    def episode(self, index: int, epoch: int) -> Episode:
        def start():
            said = [Message("system", "You answer."), Message("user", f"Question number {index}: where?")]
            said.append(Message("assistant", (yield PolicyRequest(tuple(said), Words(str(index))))))
            said.append(Message("user", "And now?"))
            said.append(Message("assistant", (yield PolicyRequest(tuple(said), Words(str(index))))))
            return said

        return Episode(f"q{index}", start, self.judge)

    def judge(self, said: list[Message]) -> Outcome:
        characters = [ord(c) for m in said if m.role == "assistant" for c in m.text]
        share = sum(c % 2 for c in characters) / max(1, len(characters))
        inputs = RewardInputs(share, 1, 1, (0.5,), (0.25,), True)
        return Outcome(inputs, (ToolCall(0, "where", "read_text", share, 0.25),), routing_turn=0, record={})


def make_engine(served: Served, folder: Path, **changes: Any) -> VllmEngine:
    given = {"max_new_tokens": TURNS, "max_retries": 2, "backoff_s": 0.01, "timeout_s": 20.0, "concurrency": 8}
    return VllmEngine(served.http.url, "base", str(folder), **{**given, **changes})


def make(cache: str, engine: VllmEngine, adapter: Any = None, steps: int = 2, **changes: Any) -> RobustTO:
    return RobustTO(
        TinyPolicy("qwen2_5_vl", cache, **SMALL),
        adapter or Lora(r=4),
        AdamW(2e-2),
        StepOrder(8, 2, 0),
        steps,
        Asking(),
        engine,
        Reward(),
        LossConfig(beta=0.0),
        AdvantageConfig(),
        num_generations=4,
        micro_batch=8,
        **changes,
    )


def fit(module: RobustTO) -> list[dict[str, float]]:
    """Train; the metrics of each step."""
    seen: list[dict[str, float]] = []

    class Watch(Callback):
        def on_train_batch_end(self, trainer, pl_module, *args) -> None:
            seen.append({name: float(value) for name, value in trainer.callback_metrics.items()})

    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    Trainer(max_steps=module.steps, accelerator="cpu", callbacks=[Watch()], **quiet).fit(module)
    return seen


def adapter_of(module: RobustTO) -> dict[str, torch.Tensor]:
    from peft.utils import get_peft_model_state_dict

    return {name: value.detach() for name, value in get_peft_model_state_dict(module.trainable.peft).items()}


def ready(cache: str, served: Served, folder: Path, noise: float = 0.0, **changes: Any) -> RobustTO:
    """A module whose (fresh, or by noise moved) adapter is loaded."""
    module = make(cache, make_engine(served, folder, **changes))
    with torch.no_grad():
        torch.manual_seed(0)
        for value in module.trainable.trained().values():
            value += noise * torch.randn_like(value)
    module.network.eval()
    module.engine.updated(module.trainable, 0)
    return module


# ---------------------------------------------------------------------------------------------------------- the policy


def test_the_server_has_the_policy_of_every_step(cache, served, tmp_path):
    engine = make_engine(served, tmp_path / "adapter")
    module = make(cache, engine)
    before = {name: value.clone() for name, value in adapter_of(module).items()}
    metrics = fit(module)
    assert len(served.behind.loads) == 3  # the beginning and two steps
    (held,) = served.behind.loaded.values()
    now = adapter_of(module)
    assert held.keys() == now.keys() and all(torch.equal(held[name], now[name]) for name in now)
    assert any(not torch.equal(before[name], now[name]) for name in now)
    assert len({one["lora_name"] for one in served.behind.loads}) == 3  # vLLM keeps what it has read by name
    assert [path.name for path in (tmp_path / "adapter").iterdir()] == [served.behind.loads[-1]["lora_name"]]
    # Log-probabilities of the drawn tokens are the trainer's, in the second step by weights that have moved.
    assert [one["sampling/sampling_logp_difference/mean"] < 1e-4 for one in metrics] == [True, True]
    assert engine.mismatched_prompts == 0 and all(one["rollouts/failed"] == 0 for one in metrics)


def test_a_stale_policy_would_show(cache, served, tmp_path):
    """The check above can fail: with the adapter of the beginning the log-probabilities are others."""
    engine = make_engine(served, tmp_path)
    first, engine.updated = engine.updated, lambda trainable, step: None
    module = make(cache, engine)
    first(module.trainable, 0)
    metrics = fit(module)
    assert metrics[0]["sampling/sampling_logp_difference/mean"] < 1e-4 and metrics[1]["rollouts/failed"] == 0
    assert metrics[1]["sampling/sampling_logp_difference/mean"] > 1e-3


def test_temperatures_of_turns_are_those_of_the_log_probabilities(cache, served, tmp_path):
    module = ready(cache, served, tmp_path, noise=0.05, temperature=[0.6, 1.4])
    episodes = [module.environment.episode(number, 0) for number in (1, 2)]
    rollouts = roll_out(episodes, 3, module.engine, 0)
    buffers = [one.buffer for one in rollouts]
    for buffer, scored in zip(buffers, module._logprobs(buffers), strict=True):
        assert len(buffer.complete) == 2 and sum(buffer.loss_mask) > 2
        assert scored.numpy() == pytest.approx(np.array(buffer.logprobs), abs=1e-4)
    sent = [body for body in served.http.bodies if "messages" in body][1:]
    assert {body["temperature"] for body in sent} == {0.6, 1.4} and module.engine.processed is True
    # What a generation_config of the server would set is set by the request.
    assert all(body["top_k"] == 0 and body["top_p"] == 1.0 and body["repetition_penalty"] == 1.0 for body in sent)
    assert {body["max_tokens"] for body in sent} == set(TURNS) and len({body["seed"] for body in sent}) == len(sent)


def test_draws_depend_on_step_question_and_sample_alone(cache, served, tmp_path):
    module = ready(cache, served, tmp_path)
    episodes = [module.environment.episode(number, 0) for number in (3, 5)]
    replies = [one.replies for one in roll_out(episodes, 4, module.engine, 7)]
    turned = [one.replies for one in roll_out(episodes[::-1], 4, module.engine, 7)]
    assert turned == replies[4:] + replies[:4] and len(set(replies)) == 8
    assert replies != [one.replies for one in roll_out(episodes, 4, module.engine, 8)]


def test_frames_reach_the_server_as_they_are_encoded_here(cache, served, tmp_path):
    module = ready(cache, served, tmp_path, noise=0.05)
    frames = np.random.default_rng(0).integers(0, 255, (8, 60, 92, 3)).astype(np.uint8)
    clip = ArraySource(cv2.GaussianBlur(frames.transpose(1, 2, 3, 0).reshape(60, 92, 24), (5, 5), 0)
                       .reshape(60, 92, 3, 8).transpose(3, 0, 1, 2), fps=10)  # fmt: skip
    asked = PolicyRequest((Message("system", "You answer."), Message("user", "What is it?", (1, 3, 6))), clip)
    (turn,) = module.engine.ask([asked], 0)
    assert (module.engine.compared_prompts, module.engine.mismatched_prompts) == (1, 0)
    scored = module._logprobs([turn.buffer])[0]
    assert scored.numpy() == pytest.approx(np.array(turn.buffer.logprobs), abs=1e-4)
    assert sum(turn.buffer.loss_mask) > 0 and "pixel_values" in turn.buffer.tensors


def test_prompts_that_the_server_divides_otherwise_are_counted(cache, served, tmp_path):
    served.behind.keeps_tokens = False
    module = ready(cache, served, tmp_path)
    rollouts = roll_out([module.environment.episode(1, 0)], 4, module.engine, 0)
    model, expected = module.policy.loaded, 0
    for one in rollouts:
        ids, turns = np.array(one.buffer.ids), np.array(one.buffer.turns)
        first = [token for token in ids[turns == 0].tolist() if token not in model.ends]
        expected += model.tokens_of(one.replies[0]) != first
    assert module.engine.compared_prompts == 8 and module.engine.mismatched_prompts == expected > 0
    assert same_prompt([1, 9, 9, 9, 2], [1, 9, 2], {9}) and not same_prompt([1, 9, 9, 9, 2], [1, 9, 9, 2], {9})
    assert not same_prompt([1, 2, 2], [1, 2], {9}) and same_prompt([1, 2, 2], [1, 2, 2], ())


# -------------------------------------------------------------------------------------------------------------- faults


def test_a_server_without_exchange_of_adapters_is_named_with_its_command(cache, served, tmp_path):
    served.behind.updates_allowed = False
    with pytest.raises(TrustvidError, match="VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve base --enable-lora"):
        ready(cache, served, tmp_path)


def test_a_folder_that_the_server_does_not_see_is_named(cache, served, tmp_path, monkeypatch):
    monkeypatch.setattr(served.behind, "load", lambda body: (404, error("No adapter found")))
    with pytest.raises(TrustvidError, match=r"expected rollout\.adapter_dir in a folder that the server reads too"):
        ready(cache, served, tmp_path)


def test_loading_that_fails_is_tried_again_and_then_stops_the_run(cache, served, tmp_path):
    served.behind.fail["load_lora_adapter"] = [500, 503, 200]
    module = ready(cache, served, tmp_path)
    assert served.http.paths.count("/v1/load_lora_adapter") == 3 and len(served.behind.loads) == 1
    served.behind.fail["load_lora_adapter"] = [500]
    with pytest.raises(
        TrustvidError, match=r"cannot be loaded into vLLM: base at .* answered 500: .*broken on purpose"
    ):
        fit(module)
    with pytest.raises(TrustvidError, match="no adapter is loaded into vLLM"):
        roll_out([module.environment.episode(1, 0)], 1, module.engine, 0)


def test_an_answer_that_was_lost_does_no_harm(cache, served, tmp_path):
    """The server has loaded the adapter, but the client heard an error: loading it twice would be refused."""
    load, lost = served.behind.load, iter([True, False])
    served.behind.load = lambda body: (502, error("gateway")) if load(body) and next(lost) else (200, "Success")
    module = ready(cache, served, tmp_path)
    assert len(served.behind.loads) == 2 and list(served.behind.loaded) == [module.engine.server.adapter]


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda choice: choice.update(token_ids=None), "return_token_ids"),
        (lambda choice: choice.update(logprobs=None), "0 log-probabilities for 1 tokens"),
    ],
    ids=["no token ids", "no log-probabilities"],
)
def test_a_server_that_keeps_tokens_to_itself_is_refused_at_the_start(cache, served, tmp_path, edit, named):
    served.behind.edit = lambda record: edit(record["choices"][0]) or record
    module = make(cache, make_engine(served, tmp_path))
    with pytest.raises(TrustvidError, match=named):
        module.engine.updated(module.trainable, 0)
    with pytest.raises(TrustvidError, match="no adapter is loaded into vLLM"):
        roll_out([module.environment.episode(1, 0)], 1, module.engine, 0)


def test_raw_log_probabilities_do_at_temperature_1_alone(cache, served, tmp_path):
    served.behind.processed = False
    module = ready(cache, served, tmp_path, noise=0.05)
    assert module.engine.processed is False
    metrics = fit(module)
    assert max(one["sampling/sampling_logp_difference/mean"] for one in metrics) < 1e-4
    assert all(one["rollouts/failed"] == 0 and one["grad_norm"] > 0 for one in metrics)
    with pytest.raises(TrustvidError, match="--logprobs-mode processed_logprobs"):
        ready(cache, served, tmp_path, temperature=[1.0, 0.7])


def test_one_reply_that_fails_takes_no_other_with_it(cache, served, tmp_path):
    module = ready(cache, served, tmp_path)
    count = iter(range(100))

    def spoilt(record: dict[str, Any]) -> dict[str, Any]:
        if next(count) == 2:
            record["choices"][0]["finish_reason"] = "abort"
        return record

    served.behind.edit = spoilt
    rollouts = roll_out([module.environment.episode(1, 0)], 4, module.engine, 0)
    failed = [one for one in rollouts if one.error]
    assert len(failed) == 1 and "vLLM's reply ended (abort)" in failed[0].error and failed[0].outcome is None
    assert all(len(one.replies) == 2 for one in rollouts if not one.error)


def test_a_server_that_goes_down_fails_rollouts_and_then_the_run(cache, served, tmp_path):
    told = []
    module = make(cache, make_engine(served, tmp_path), on_rollouts=lambda step, rollouts, terms: told.append(rollouts))
    # The question at the start, the eight first turns of a step, then nothing.
    served.behind.fail["chat/completions"] = [200] * 9 + [503]
    chats = "/v1/chat/completions"
    with pytest.raises(TrustvidError, match=r"cannot be loaded into vLLM: .*answered 503"):
        served.behind.fail["load_lora_adapter"] = [200, 503]
        fit(module)
    (rollouts,) = told
    assert len(rollouts) == 8 and all("the policy gave no reply (http_503)" in one.error for one in rollouts)
    assert served.http.paths.count(chats) == 9 + 8 * 3  # each second turn, tried again twice
    served.http.shutdown()
    served.http.server_close()
    with pytest.raises(TrustvidError, match="no connection to base at"):
        module.engine.updated(module.trainable, 0)


def test_what_cannot_be_is_refused(cache, served, tmp_path, monkeypatch):
    with pytest.raises(
        ConfigError, match=r"adapter=full: rollout=vllm exchanges adapters alone; expected adapter=lora"
    ):
        fit(make(cache, make_engine(served, tmp_path), Full()))
    with pytest.raises(ConfigError, match=r"policy\.frames_as=video: .*expected images"):
        make_engine(served, tmp_path).connect(TinyPolicy("qwen2_5_vl", cache))
    with pytest.raises(ConfigError) as raised:
        VllmEngine("localhost", "", adapter_name="a/b", temperature=0.0, top_p=0.9, concurrency=0)
    assert len(raised.value.faults) == 6 and not served.http.paths
    module = make(cache, make_engine(served, tmp_path))
    module.engine.adapter_dir = None
    with pytest.raises(ConfigError, match=r"rollout\.adapter_dir is not set"):
        fit(module)
    module = make(cache, make_engine(served, tmp_path))
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(ConfigError, match=r"several training processes; expected one, or rollout=hf"):
        module.engine.updated(module.trainable, 0)
