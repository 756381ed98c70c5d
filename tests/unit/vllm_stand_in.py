"""A stand-in for a vLLM server on the loopback interface, over a second copy of a tiny policy.

It renders the messages it is sent with the chat template, applies the adapter folders it is told to load (PEFT) and
samples by the request's seed, so that a stale policy, another prompt or other log-probabilities show.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from peft import PeftModel
from safetensors.torch import load_file

from tests.unit.loopback import LoopbackServer, _Handler
from trustvid.policy.base import Message
from trustvid.policy.tiny import TinyPolicy
from trustvid.policy.vlm_inputs import _positions
from trustvid.policy.vlm_settings import Decoding
from trustvid.policy.vlm_tokens import TokenBuffer


@dataclass
class StandIn:
    """What a vLLM server does with requests, over a second copy of the tiny policy.

    Attributes:
        processed: --logprobs-mode processed_logprobs; else raw_logprobs.
        updates_allowed: VLLM_ALLOW_RUNTIME_LORA_UPDATING.
        keeps_tokens: replies it has drawn stay the tokens they were; else their words are divided anew, as vLLM does.
        loads, loaded: requests to load an adapter, and the weights of those that are.
        fail: what to answer instead, by path: statuses, the last one for good.
        edit: changes a chat completion before it is sent.
    """

    policy: TinyPolicy
    processed: bool = True
    updates_allowed: bool = True
    keeps_tokens: bool = True
    loads: list[dict[str, str]] = field(default_factory=list)
    loaded: dict[str, dict[str, Any]] = field(default_factory=dict)
    fail: dict[str, list[int]] = field(default_factory=dict)
    edit: Any = lambda record: record

    def __post_init__(self) -> None:
        self.model = self.policy.load_own()
        self.peft: Any = None
        self.said: dict[str, TokenBuffer] = {}
        self.lock = threading.Lock()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        with self.lock:
            path = path.removeprefix("/v1/")
            if statuses := self.fail.get(path):
                status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
                if status != 200:
                    return status, error("broken on purpose")
            if path == "chat/completions":
                return self.chat(body)
            if path not in ("load_lora_adapter", "unload_lora_adapter") or not self.updates_allowed:
                return 404, {"detail": "Not Found"}
            return self.load(body) if path == "load_lora_adapter" else self.unload(body["lora_name"])

    def load(self, body: dict[str, str]) -> tuple[int, Any]:
        self.loads.append(body)
        name, folder = body["lora_name"], Path(body["lora_path"])
        if name in self.loaded:
            return 400, error(f"The lora adapter '{name}' has already been loaded.")
        if not (folder / "adapter_config.json").is_file():
            return 404, error(f"Loading lora {name} failed: No adapter found for {folder}")
        if self.peft is None:
            self.peft = PeftModel.from_pretrained(self.model.network, str(folder), adapter_name=name)
        else:
            self.peft.load_adapter(str(folder), name)
        self.loaded[name] = load_file(folder / "adapter_model.safetensors")
        return 200, f"Success: LoRA adapter '{name}' added successfully."

    def unload(self, name: str) -> tuple[int, Any]:
        if name not in self.loaded:
            return 404, error(f"The lora adapter '{name}' cannot be found.")
        del self.loaded[name]
        return 200, f"Success: LoRA adapter '{name}' removed successfully."

    def chat(self, body: dict[str, Any]) -> tuple[int, Any]:
        if body["model"] not in self.loaded:
            return 404, error(f"The model `{body['model']}` does not exist.")
        self.peft.set_adapter(body["model"])
        self.model.network.eval()
        buffer = self.prompt(body["messages"])
        prompt = buffer.ids
        tokens, logprobs = self.draw(buffer, body)
        ended = tokens[-1] in self.model.ends
        text = self.model.words_of(tokens)
        self.said[json.dumps([*body["messages"], {"role": "assistant", "content": text}])] = buffer
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop" if ended else "length",
            "token_ids": tokens if body.get("return_token_ids") else None,
            "logprobs": {"content": [{"token": "?", "logprob": value} for value in logprobs]},
        }
        record = {"object": "chat.completion", "model": body["model"], "choices": [choice], "prompt_token_ids": prompt}
        return 200, self.edit(record)

    def prompt(self, messages: list[dict[str, Any]]) -> TokenBuffer:
        before = self.said.pop(json.dumps(messages[:-1]), None)
        if before is not None and self.keeps_tokens:
            before.show(self.model.following(Message("user", messages[-1]["content"]), before.ids))
            return before
        chat = [{"role": message["role"], "content": parts(message["content"])} for message in messages]
        processor, network = self.model.processor, self.model.network
        tensors = dict(
            processor.apply_chat_template(
                chat, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt",
                processor_kwargs={"do_sample_frames": False},
            )
        )  # fmt: skip
        tensors["position_ids"] = _positions(tensors, [], network, self.model.family)
        return TokenBuffer(tensors)

    def draw(self, buffer: TokenBuffer, body: dict[str, Any]) -> tuple[list[int], list[float]]:
        raw = dict(buffer.tensors)
        if allowed := body.get("allowed_token_ids"):
            tokens, logprobs = allowed, [0.0]
            buffer.write(tokens, logprobs, complete=False)
        else:
            decoding = Decoding(body["max_tokens"], True, body["temperature"], body["top_p"])
            draws = np.random.default_rng(body["seed"]).random((1, body["max_tokens"]))
            self.model.session([buffer]).reply(decoding, draws)
            tokens = buffer.last_reply
            logprobs = buffer.logprobs[-len(tokens) :]
        if not self.processed:
            logprobs = self.model.logprobs([raw], [tokens])[0]
        return tokens, logprobs


def error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "Error", "code": 0}}


def parts(content: Any) -> list[dict[str, Any]]:
    """A message's content as the template takes it, pictures decoded from their base64."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    found = []
    for part in content:
        if part["type"] == "text":
            found.append(part)
            continue
        data = np.frombuffer(base64.b64decode(part["image_url"]["url"].partition(",")[2]), np.uint8)
        found.append({"type": "image", "image": cv2.cvtColor(cv2.imdecode(data, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)})
    return found


class _StandInHandler(_Handler):
    def _act(self, body: dict[str, Any], model: str, number: int) -> None:
        status, answer = self.server.reply.answer(self.path, body)
        self._send(status, answer)


@dataclass
class Served:
    """A running stand-in: what it does, and its listening part."""

    behind: StandIn
    http: LoopbackServer


@contextmanager
def serving_vllm(policy: TinyPolicy) -> Iterator[Served]:
    """A stand-in that runs inside the block."""
    behind = StandIn(policy)
    http = LoopbackServer(behind)
    http.RequestHandlerClass = _StandInHandler
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield Served(behind, http)
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
