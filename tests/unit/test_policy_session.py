"""Conversations that go on: what was read is not read again, and the replies are those of reading everything anew.

On a tiny checkpoint of every family, saved to disk and loaded by the code that the published weights take.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.test_policy_vlm import ask, make_clip
from trustvid.errors import TrustvidError
from trustvid.policy.base import Message, PolicyRequest
from trustvid.policy.vlm import VisionLanguagePolicy
from trustvid.policy.vlm_families import FAMILIES
from trustvid.policy.vlm_settings import Decoding

torch = pytest.importorskip("torch")

BUILT = [family for family in FAMILIES if family != "qwen3_vl_moe"]
DRAWN = Decoding(max_new_tokens=6, do_sample=True, temperature=1.3)


@pytest.fixture(scope="module", params=BUILT)
def policy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VisionLanguagePolicy]:
    from tests.unit.tiny_families import build_family

    torch.set_num_threads(1)
    folder = build_family(request.param, tmp_path_factory.mktemp("family") / request.param)
    yield VisionLanguagePolicy(str(folder), dtype="float32", device="cpu", max_new_tokens=6)


def afresh(policy: VisionLanguagePolicy, **settings) -> VisionLanguagePolicy:
    """The same weights, with no conversation going on."""
    other = VisionLanguagePolicy(
        policy.weights.model, dtype="float32", device="cpu", **{"max_new_tokens": 6, **settings}
    )
    vars(other)["loaded"] = policy.loaded
    return other


def conversations() -> list[PolicyRequest]:
    """Of unlike length and with unlike clips of one size: one batch."""
    return [
        ask("Where is the red car?", (0, 5, 10, 15)),
        ask(
            "And which of all the many signs along the long road is seen before the house?", (0, 2, 4, 6), make_clip(1)
        ),
    ]


def model_type(policy: VisionLanguagePolicy) -> str:
    return policy.loaded.network.config.model_type


def going_on(request: PolicyRequest, reply: str, text: str) -> PolicyRequest:
    more = (*request.messages, Message("assistant", reply), Message("user", text))
    return PolicyRequest(more, request.clip, request.sample)


def test_a_reply_is_what_transformers_generates(policy):
    request = conversations()[0]
    model = policy.loaded
    inputs = model.encode(request, policy.showing)
    inputs.pop("position_ids") if policy.loaded.family.times != "positions" else None
    theirs = model.network.generate(**inputs, max_new_tokens=6, do_sample=False)[0, inputs["input_ids"].shape[1] :]
    assert policy.generate([request]) == [model.words_of(theirs.tolist())]


def test_three_turns_read_nothing_twice_and_reply_as_if_all_were_read_anew(policy, monkeypatch):
    requests, forward, read = conversations(), policy.loaded.network.forward, []

    def counted(**inputs):
        new = inputs["attention_mask"][:, -inputs["input_ids"].shape[1] :]
        read.append((int(new.sum()), any(name.startswith("pixel_values") for name in inputs)))
        return forward(**inputs)

    monkeypatch.setattr(policy.loaded.network, "forward", counted)
    speaker = afresh(policy)
    for turn, text in enumerate(("Go on.", "Which tool do you ask, and which not?", "")):
        read.clear()
        turns = speaker.converse(requests)
        shown = [pictures for _, pictures in read]
        assert shown == [turn == 0] + [False] * (len(shown) - 1)
        if turn:  # what was said since, not the conversation
            assert read[0][0] < 120 < sum(map(len, (turns[0].buffer, turns[1].buffer)))
        for found in turns:
            ids, written = found.buffer.ids, found.buffer.last_reply
            inputs = dict(found.buffer.tensors)
            with torch.no_grad():
                logits = forward(**inputs, use_cache=False).logits[0, -len(written) - 1 : -1].float()
            assert logits.argmax(-1).tolist() == written and ids[-len(written) :] == written
            known = logits.log_softmax(-1).gather(1, torch.tensor(written)[:, None])[:, 0]
            assert found.buffer.logprobs[-len(written) :] == pytest.approx(known.tolist(), abs=2e-4)
        requests = [going_on(request, turn.text, text) for request, turn in zip(requests, turns, strict=True)]


def test_what_follows_a_reply_is_what_the_chat_template_puts_there(policy):
    """Where the words of a reply split into tokens one way only, the buffer is the rendered conversation."""
    from trustvid.policy.vlm_tokens import TokenBuffer

    request, model = conversations()[0], policy.loaded
    buffer = TokenBuffer(model.encode(request, policy.showing))
    space = " " if model_type(policy) == "smolvlm" else ""  # its template writes one before every reply
    reply = model.tokens_of(f"{space}a red car")
    buffer.write(reply, [0.0] * len(reply), complete=False)
    message = Message("user", "Read this: <|im_end|> and go on.")
    buffer.show(model.following(message, buffer.ids))
    rendered = model.encode(going_on(request, "a red car", message.text), policy.showing)
    assert buffer.ids == rendered["input_ids"][0].tolist()
    assert torch.equal(buffer.tensors["position_ids"], rendered["position_ids"])
    ended = TokenBuffer(model.encode(request, policy.showing))
    end = buffer.ids[buffer.loss_mask.index(1) + len(reply)]
    ended.write([*reply, end], [0.0] * (len(reply) + 1), complete=True)
    ended.show(model.following(message, ended.ids))
    assert ended.ids == buffer.ids and sum(ended.loss_mask) == sum(buffer.loss_mask) + 1
    with pytest.raises(TrustvidError, match="in its first message"):
        model.following(Message("user", "?", (1,)), buffer.ids)


def test_samples_of_one_conversation_differ_and_share_its_reading(policy, monkeypatch):
    forward, rows = policy.loaded.network.forward, []

    def counted(**inputs):
        rows.append(len(inputs["input_ids"]))
        return forward(**inputs)

    monkeypatch.setattr(policy.loaded.network, "forward", counted)
    first, second = conversations()
    group = [PolicyRequest(one.messages, one.clip, sample) for one in (first, second) for sample in range(4)]
    turns = afresh(policy).converse(group, DRAWN)
    assert rows[0] == 2 and set(rows[1:]) == {8}
    assert len({turn.text for turn in turns[:4]}) > 1
    alone = [afresh(policy, batch_size=1).converse([request], DRAWN)[0] for request in group]
    assert [turn.buffer.ids for turn in alone] == [turn.buffer.ids for turn in turns]
    for turn, other in zip(turns, alone, strict=True):
        assert turn.buffer.logprobs == pytest.approx(other.buffer.logprobs, abs=2e-4)


def test_some_go_on_in_another_order_and_others_are_new(policy):
    first, second = conversations()
    speaker = afresh(policy)
    said = speaker.generate([first, second])
    mixed = [ask("New.", (1, 2)), going_on(second, said[1], "Why?"), going_on(first, said[0], "Sure?"), ask("None.")]
    separate = []
    for request, reply, text in ((second, said[1], "Why?"), (first, said[0], "Sure?")):
        alone = afresh(policy, batch_size=1)
        alone.generate([request])
        separate += alone.generate([going_on(request, reply, text)])
    assert speaker.generate(mixed)[1:3] == separate
    assert afresh(policy).generate([mixed[0], mixed[3]]) == [
        reply for place, reply in enumerate(afresh(policy).generate(mixed)) if place in (0, 3)
    ]


def test_a_session_that_fails_goes_on_one_by_one(policy, monkeypatch):
    requests = conversations()
    plain = afresh(policy)
    said = plain.generate(requests)
    more = [going_on(request, reply, "Sure?") for request, reply in zip(requests, said, strict=True)]
    expected = plain.generate(more)
    speaker, forward = afresh(policy), policy.loaded.network.forward
    speaker.generate(requests)

    def tight(**inputs):
        if len(inputs["input_ids"]) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(**inputs)

    monkeypatch.setattr(policy.loaded.network, "forward", tight)
    assert speaker.generate(more) == expected


def test_columns_are_aligned_with_the_joined_tokens(policy):
    from trustvid.policy.vlm_inputs import joined
    from trustvid.policy.vlm_tokens import columns

    turns = afresh(policy).converse(conversations(), DRAWN)
    buffers = [turn.buffer for turn in turns]
    batch = joined([buffer.tensors for buffer in buffers], 0)
    found = columns(buffers)
    assert found["loss_mask"].shape == batch["input_ids"].shape
    for row, buffer in enumerate(buffers):
        mask = found["loss_mask"][row]
        assert batch["input_ids"][row, mask].tolist() == buffer.last_reply
        assert np.allclose(found["logprobs"][row, mask], buffer.logprobs[-int(mask.sum()) :])
        assert (found["turns"][row] == 0).tolist() == mask.tolist()


def test_a_beginning_that_is_shared_is_read_once_and_scored_alike(policy, monkeypatch):
    """Log-probabilities, entropies and gradients are those of reading every conversation whole."""
    from trustvid.policy.vlm_inputs import joined
    from trustvid.policy.vlm_scoring import score, score_groups
    from trustvid.policy.vlm_tokens import columns

    group = [PolicyRequest(one.messages, one.clip, sample) for one in conversations() for sample in range(3)]
    speaker = afresh(policy)
    turns = speaker.converse(group)  # not drawn: a draw of a random model may be the mark of a picture
    turns = speaker.converse([going_on(one, turn.text, "Sure?") for one, turn in zip(group, turns, strict=True)])
    buffers = [turn.buffer for turn in turns]
    network, pad = policy.loaded.network, policy.loaded.processor.tokenizer.pad_token_id
    known = columns(buffers)
    heat = torch.where(known["turns"] == 1, 0.5, 1.3)
    read, forward = [], network.model.forward

    def counted(**inputs):
        read.append(len(inputs["input_ids"]))
        return forward(**inputs)

    monkeypatch.setattr(network.model, "forward", counted)
    found = []
    for scored in (
        lambda: score(network, joined([buffer.tensors for buffer in buffers], pad), known["loss_mask"], heat),
        lambda: score_groups(network, buffers, known["loss_mask"], pad, heat),
    ):
        network.zero_grad()
        one = scored()
        (one.logprobs.sum() + 0.1 * one.entropy.sum()).backward()
        gradients = [p.grad.clone() for p in network.parameters() if p.grad is not None]
        found.append((one, gradients))
    network.zero_grad()
    assert read == [6, 2, 6]
    (whole, wanted), (shared, gradients) = found
    assert torch.allclose(whole.logprobs, shared.logprobs, atol=2e-4) and whole.logprobs.abs().sum() > 1
    assert torch.allclose(whole.entropy, shared.entropy, atol=2e-4)
    largest = max(float(a.abs().max()) for a in wanted)
    assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-5 * largest) for a, b in zip(wanted, gradients, strict=True))


def test_a_reply_that_holds_the_mark_of_a_picture_is_scored_all_the_same(policy):
    """Sampling can draw any token; behind the beginning, a mark of a picture is a token like any other."""
    from trustvid.policy.vlm_scoring import score_groups
    from trustvid.policy.vlm_tokens import TokenBuffer, columns

    model = policy.loaded
    ids = model.encode(conversations()[0], policy.showing)["input_ids"][0]
    mark = int(ids.mode().values)  # what a prompt with pictures mostly consists of
    buffer = TokenBuffer(model.encode(conversations()[0], policy.showing))
    buffer.write([mark, 5], [0.0, 0.0], complete=False)
    found = score_groups(model.network, [buffer], columns([buffer])["loss_mask"], 0)
    assert torch.isfinite(found.logprobs).all() and (found.logprobs[0, -2:] < 0).all()
