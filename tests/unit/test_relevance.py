"""Relevance of frames to the question: what Eq. 3 does with it, words seen in frames, image-text models, the config.

pytest tests/unit/test_relevance.py -q
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from tests.unit.fakes import ArraySource
from trustvid.agent.driving import drive
from trustvid.agent.method import Method, Question, View
from trustvid.agent.pipeline import Pipeline
from trustvid.agent.prompting import Prompts
from trustvid.agent.routing import Fixed
from trustvid.agent.synthesis import Uniform as UniformSynthesis
from trustvid.agent.synthesis import words_of
from trustvid.agent.trajectory import Trajectory
from trustvid.config.checking import build, check
from trustvid.config.compose import compose_config, group_options
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import ConfigError, TrustvidError
from trustvid.policy.scripted import ScriptedPolicy
from trustvid.reliability.confidence import Intrinsic
from trustvid.reliability.profile import Off, Paper, Profile
from trustvid.reliability.selection import Anchored, PaperTopK, Stratified, Uniform
from trustvid.tools.cache import ToolCache
from trustvid.tools.detect_objects import DetectObjects
from trustvid.tools.evidence import FrameBatch, SubQuery
from trustvid.tools.executor import Executor
from trustvid.tools.pretrained.image_text import Clip, ImageText, Siglip2, packed, unpacked
from trustvid.tools.read_text import ReadText
from trustvid.tools.relevance import Lexical, NoRelevance, cosine_shift, quantile, terms_of
from trustvid.video.sampling import uniform_indices

VIDEOS = Path(__file__).resolve().parents[1] / "data" / "videos"
SELECTORS = [Uniform(), PaperTopK(), Stratified(), Anchored()]
QUESTION = "Which sign is on the left of PIZZA?"
WORDS = words_of(QUESTION)


def profile_of(reliability, n_frames: int | None = None) -> Profile:
    values = np.asarray(reliability, dtype=float)
    return Profile(tuple(uniform_indices(n_frames or len(values), len(values))), 1.0 - values)


# ---- scales and selection ------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=64), st.integers(0, 200), st.integers(4, 12))
def test_without_relevance_or_with_ones_every_selection_is_what_it_was(reliability, more, k):
    profile = profile_of(reliability, len(reliability) + more)
    n_frames = len(reliability) + more
    ones = NoRelevance().relevance(None, profile.indices, "?", (), None)
    for selector in (*SELECTORS, Anchored(relevance=1.0)):
        assert selector.select(profile, n_frames, k, ones) == selector.select(profile, n_frames, k)
    # PaperTopK as it was before it knew of relevance: reliability alone, ties to the earlier frame
    eligible = [r >= 0.55 for r in profile.reliability]
    order = sorted(range(len(eligible)), key=lambda i: (not eligible[i], -profile.reliability[i], i))
    expected = sorted(profile.indices[i] for i in order[: min(k, max(sum(eligible), 4))])
    assert list(PaperTopK().select(profile, n_frames, k)) == expected


def test_the_others_do_not_read_it():
    profile, relevance = profile_of(np.linspace(0.3, 0.9, 40), 90), np.linspace(1, 0, 40)
    for selector in (Uniform(), Stratified(), Anchored()):
        assert selector.select(profile, 90, 8, relevance) == selector.select(profile, 90, 8)


def test_eq_3_multiplies_reliability_and_relevance_and_discards_below_theta_sim():
    reliability = [0.9, 0.9, 0.6, 0.6, 0.9, 0.9, 0.6, 0.9]
    relevance = np.array([0.5, 1.0, 1.0, 0.7, 0.29, 0.6, 0.9, 0.30])
    # s: .45 .90 .60 .42 (.26, discarded) .54 .54 .27
    assert PaperTopK().select(profile_of(reliability), 8, 4, relevance) == (1, 2, 5, 6)
    assert PaperTopK().select(profile_of(reliability), 8, 12, relevance) == (0, 1, 2, 3, 5, 6, 7)
    assert PaperTopK(theta_sim=0.0).select(profile_of(reliability), 8, 12, relevance) == tuple(range(8))
    # at least k_min frames stay: the best of the discarded fill up
    assert PaperTopK(theta_sim=0.95).select(profile_of(reliability), 8, 12, relevance) == (1, 2, 5, 6)


@pytest.mark.parametrize("n", [10, 20, 64])
@pytest.mark.parametrize(("middle", "width"), [(0.22, 0.03), (0.05, 0.01), (-0.4, 0.2), (0.9, 0.05)])
def test_the_quantile_scale_binds_whatever_the_cosines_are_and_the_shifted_never_does(n, middle, width):
    cosine = middle + width * np.random.default_rng(n).permutation(np.linspace(-1, 1, n))
    profile = profile_of([1.0] * n)
    ranked = quantile(cosine)
    assert ranked.min() == 0 and ranked.max() == 1 and (np.argsort(ranked) == np.argsort(cosine)).all()
    kept = PaperTopK(k_max=n).select(profile, n, n, ranked)
    assert n - len(kept) == round(0.3 * n) and set(kept) == set(np.argsort(cosine)[n - len(kept) :])
    if middle > -0.1:  # what image-text models give
        assert len(PaperTopK(k_max=n).select(profile, n, n, cosine_shift(cosine))) == n
    assert PaperTopK().select(profile, n, 4, ranked) == PaperTopK().select(profile, n, 4, cosine_shift(cosine))


def test_frames_that_nothing_tells_apart_are_not_discarded():
    assert quantile(np.full(7, 0.3)).tolist() == [1.0] * 7 and quantile(np.array([0.1])).tolist() == [1.0]
    assert quantile(np.array([0.200001, 0.2, 0.19999, 0.3])).tolist() == [2 / 3, 2 / 3, 2 / 3, 1.0]
    few = np.r_[np.zeros(40), np.linspace(0.1, 1, 20)]
    assert quantile(few).min() >= 0.30, "two thirds of the clip are alike"
    assert cosine_shift(np.array([-1.0, -0.4, 0.0, 1.0])).tolist() == pytest.approx([0.0, 0.3, 0.5, 1.0])


def test_a_threshold_by_rank_binds_on_every_scale_and_leaves_the_score_alone():
    cosine = 0.2 + 0.03 * np.random.default_rng(3).permutation(np.linspace(-1, 1, 64))
    profile = profile_of(np.where(np.arange(64) % 2, 0.9, 0.8))
    by_rank = PaperTopK(k_max=64, theta_sim_on="rank")
    for relevance in (cosine_shift(cosine), 1e-2 + cosine_shift(cosine) / 2, quantile(cosine)):
        kept = by_rank.select(profile, 64, 64, relevance)
        assert len(kept) == 64 - 19 and set(kept) == set(np.argsort(cosine)[19:]), "19 of 64 frames are 30 %"
    # s is reliability × relevance on its own scale: shifted cosines hardly differ, so reliability decides among the rest
    assert all(frame % 2 for frame in by_rank.select(profile, 64, 12, cosine_shift(cosine)))
    assert by_rank.select(profile, 64, 12) == PaperTopK().select(profile, 64, 12), "nothing is asked, nothing discarded"
    with pytest.raises(ValueError, match=r"selection\.theta_sim_on='share' is unknown; known: value, rank"):
        PaperTopK(theta_sim_on="share")


def test_anchored_moves_a_little_towards_what_was_asked_for_if_it_is_told_to():
    profile, relevance = profile_of([0.8] * 90), np.zeros(90)
    relevance[33:40] = 1.0
    grid = Uniform().select(profile, 90, 4)
    assert grid == (0, 30, 59, 89)
    assert Anchored().select(profile, 90, 4, relevance) == grid
    assert Anchored(relevance=0.2).select(profile, 90, 4, relevance) == (0, 33, 59, 89)
    assert Anchored(relevance=0.05).select(profile, 90, 4, relevance) == grid, "3 of 30 frames cost more than 0.05"
    for wrong in (-0.1, 1.1):
        with pytest.raises(ValueError, match=r"selection\.relevance="):
            Anchored(relevance=wrong)


# ---- words seen ----------------------------------------------------------------------------------------------------


class Watched(ReadText):
    """read_text that counts the frames it looks at, or fails."""

    def __init__(self, fails: bool = False):
        super().__init__()
        self.looked, self.fails = 0, fails

    def observe(self, batch, query, words):
        if self.fails:
            raise RuntimeError("no light")
        self.looked += len(batch.images)
        return super().observe(batch, query, words)


def executor(reader: ReadText | None = None, cache: ToolCache | None = None) -> Executor:
    tools = (reader or ReadText(), DetectObjects())
    return Executor({tool.name: tool for tool in tools}, cache or ToolCache.memory(), time_limit_s=60)


@pytest.fixture(scope="module")
def city() -> ArraySource:
    from trustvid.benchmarks.boxworld.preview import render_clip

    return ArraySource(render_clip("city", 500).frames[::3], fps=10 / 3, video_id="city")


@pytest.fixture(scope="module")
def tools() -> Executor:
    return executor()


def frames_with(word: str, clip: ArraySource, tools: Executor) -> set[int]:
    evidence = tools.run("read_text", SubQuery("?", "text"), clip, range(clip.n_frames))
    return {seen.frame for seen in evidence.observations if seen.label == word}


def test_frames_in_which_the_word_is_read_come_first(city, tools):
    indices = list(range(city.n_frames))
    for word in ("PIZZA", "POST", "MUSEUM"):
        question = f"Where is {word}?"
        relevance = Lexical().relevance(city, indices, question, words_of(question), tools)
        read = frames_with(word, city, tools)
        assert 3 <= len(read) < 20 and relevance.shape == (len(indices),)
        assert relevance.min() >= 0 and relevance.max() == 1
        assert set(np.argsort(-relevance, kind="stable")[: len(read)].tolist()) == read, word
        near = [min(abs(frame - other) for other in read) for frame in indices]
        order = [relevance[indices[near.index(distance)]] for distance in (1, 4, 8) if distance in near]
        assert len(order) == 3 and order == sorted(order, reverse=True), "less and less away from where it was read"
        assert order[0] > order[-1], "a frame beside one in which it was read may show it too"
        chosen = PaperTopK().select(profile_of([1.0] * len(indices)), len(indices), 4, relevance)
        assert set(chosen) <= read, "all frames are equally reliable: the question decides"


def test_a_far_part_in_which_nothing_was_read_is_not_discarded(city, tools):
    relevance = Lexical(reach_s=0.2).relevance(city, range(city.n_frames), "PIZZA?", ("PIZZA",), tools)
    unread = [frame for frame in range(city.n_frames) if frame not in frames_with("PIZZA", city, tools)]
    assert relevance[unread].min() >= 0.30 > 0


def test_options_count_and_what_is_not_in_sight_changes_nothing(city, tools):
    indices = range(0, city.n_frames, 2)
    by_option = Lexical().relevance(city, indices, "What is it?", words_of("What is it?", "PIZZA", "ZOO"), tools)
    assert (by_option == Lexical().relevance(city, indices, "PIZZA?", ("PIZZA",), tools)).all()
    for question in ("How many turns are there?", "Did the camera turn?", "Where is XYLOPHONE?"):
        assert (Lexical().relevance(city, indices, question, words_of(question), tools) == 1).all()
    assert terms_of("Is the red box left of the sign?", ("IS", "THE", "RED", "BOX")) == ("red", "box", "sign")


def test_colours_of_things_count(city, tools):
    seen = tools.run("detect_objects", SubQuery("?", "spatial"), city, range(city.n_frames)).observations
    red = {one.frame for one in seen if one.label == "red box"}
    relevance = Lexical(tools=["detect_objects"]).relevance(city, range(city.n_frames), "the red box", (), tools)
    assert int(relevance.argmax()) in red and 0 < len(red) < city.n_frames
    assert relevance[list(red)].mean() > 0.2 + np.delete(relevance, list(red)).mean()


def test_tools_look_once_for_all_questions(city, tmp_path):
    reader = Watched()
    first = Lexical().relevance(city, range(8), QUESTION, WORDS, executor(reader, ToolCache(tmp_path)))
    assert reader.looked == 8
    again = Watched()
    for question in (QUESTION, "Where is PARK?"):
        second = Lexical().relevance(city, range(8), question, words_of(question), executor(again, ToolCache(tmp_path)))
    assert again.looked == 0 and second.shape == first.shape


def test_a_failing_or_missing_tool_is_told(city):
    with pytest.raises(TrustvidError, match="city: relevance=lexical: read_text: RuntimeError: no light"):
        Lexical().relevance(city, [0, 1], QUESTION, WORDS, executor(Watched(fails=True)))
    with pytest.raises(TrustvidError, match="no tool 'caption_frame' here; known: detect_objects, read_text"):
        Lexical(tools=["caption_frame"]).relevance(city, [0, 1], QUESTION, WORDS, executor())
    with pytest.raises(ConfigError) as caught:
        Lexical(tools=["read_txt"], reach_s=0)
    assert len(caught.value.faults) == 2 and "relevance.tools holds 'read_txt'; known: read_text" in str(caught.value)
    with pytest.raises(ConfigError, match="leaves nothing that looks"):
        Lexical(tools=[])


# ---- image-text models ---------------------------------------------------------------------------------------------

SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
LETTERS = "abcdefghijklmnopqrstuvwxyz?.,"


def tiny_clip() -> tuple[Any, Any]:
    import transformers
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted(ByteLevel.alphabet())
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    tokenizer = transformers.CLIPTokenizer(vocab={token: i for i, token in enumerate(tokens)}, merges=[])
    ends = {"bos_token_id": len(tokens) - 2, "eos_token_id": len(tokens) - 1, "pad_token_id": len(tokens) - 1}
    config = transformers.CLIPConfig(
        text_config={**SMALL, **ends, "vocab_size": len(tokens), "max_position_embeddings": 24},
        vision_config={**SMALL, "image_size": 32, "patch_size": 16},
        projection_dim=24,
    )
    images = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return transformers.CLIPModel(config), transformers.CLIPProcessor(images, tokenizer)


def tiny_siglip2() -> tuple[Any, Any]:
    import transformers

    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *LETTERS, *LETTERS[:26].upper()]
    tokenizer = transformers.GemmaTokenizer(
        vocab={token: i for i, token in enumerate(tokens)}, merges=[], add_bos_token=False, add_eos_token=True
    )
    config = transformers.SiglipConfig(
        text_config={**SMALL, "vocab_size": len(tokens), "max_position_embeddings": 24, "projection_size": 32},
        vision_config={**SMALL, "image_size": 32, "patch_size": 16},
    )
    images = transformers.SiglipImageProcessor(size={"height": 32, "width": 32})
    return transformers.SiglipModel(config), transformers.SiglipProcessor(images, tokenizer)


MODELS = {"clip": (tiny_clip, Clip), "siglip2": (tiny_siglip2, Siglip2)}
every_model = pytest.mark.parametrize("name", list(MODELS))


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> dict[str, str]:
    """Folder of a tiny checkpoint of each architecture, saved as the published ones are."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    root = tmp_path_factory.mktemp("checkpoints")
    for name, (tiny, _) in MODELS.items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            network, processor = tiny()
        network.save_pretrained(root / name)
        processor.save_pretrained(root / name)
    return {name: str(root / name) for name in MODELS}


def model_of(name: str, checkpoints: dict[str, str], **more: Any) -> ImageText:
    return MODELS[name][1](checkpoints[name], offline=True, **more)


@every_model
def test_the_cosine_is_that_of_the_network_and_is_scaled(name, checkpoints, city):
    import torch

    indices, tools = [0, 9, 15, 22, 38], executor()
    model = model_of(name, checkpoints, scale="cosine_shift")
    shifted = model.relevance(city, indices, "where is it?", (), tools)
    loaded = model.load()
    processor, network = loaded.processor, loaded.network
    if name == "clip":
        tokens = processor.tokenizer(["where is it?"], return_tensors="pt")
    else:
        ids = processor.tokenizer(["where is it?"], return_attention_mask=False)["input_ids"][0]
        tokens = {"input_ids": torch.tensor([ids + [0] * (24 - len(ids))])}  # filled up on the right
    with torch.inference_mode():
        pixels = processor.image_processor(list(city.frames(indices)), return_tensors="pt")["pixel_values"]
        image = network.vision_model(pixels).pooler_output
        text = network.text_model(**tokens).pooler_output
        if name == "clip":
            image, text = network.visual_projection(image), network.text_projection(text)
    expected = torch.nn.functional.cosine_similarity(image, text).numpy()
    assert shifted == pytest.approx((expected + 1) / 2, abs=1e-3) and len(set(shifted.tolist())) == len(indices)
    ranked = model_of(name, checkpoints).relevance(city, indices, "where is it?", (), tools)
    assert (ranked == quantile(2 * shifted - 1)).all() and ranked.min() == 0 and ranked.max() == 1


@pytest.mark.parametrize(("name", "scale"), [(name, scale) for name in MODELS for scale in MODELS[name][1].scales])
def test_which_scales_bind_on_real_frames(name, scale, checkpoints):
    """θ_sim = .30 on the frames of a file, by what the networks say: random ones, but of pixels and words alike."""
    from trustvid.video.reader import open_clip

    clip = open_clip(VIDEOS / "v01_cfr30_90f.mp4")
    indices = uniform_indices(clip.n_frames, 64)
    model = model_of(name, checkpoints, scale=scale)
    relevance = model.relevance(clip, indices, "where is the text?", (), executor())
    flat, n = Profile(tuple(indices), np.zeros(64)), clip.n_frames
    discarded = 64 - len(PaperTopK(k_max=64).select(flat, n, 64, relevance))
    by_rank = 64 - len(PaperTopK(k_max=64, theta_sim_on="rank").select(flat, n, 64, relevance))
    assert len(set(relevance.tolist())) > 16, "the frames differ"
    assert 10 <= by_rank <= 19, "a threshold by rank binds on any scale: up to 30 %, fewer where frames are alike"
    if scale == "quantile":
        assert discarded == by_rank
    if scale == "cosine_shift":
        assert discarded == (relevance < 0.3).sum() == (2 * relevance - 1 < -0.4).sum(), "cosines no real model gives"


def test_the_probability_is_the_sigmoid_that_siglip_was_trained_with(checkpoints, city):
    import torch

    indices, words = [0, 9, 15, 22, 38], "a red box"
    model = model_of("siglip2", checkpoints, scale="probability")
    network = model.load().network
    kept = network.logit_scale.detach().clone(), network.logit_bias.detach().clone()
    cosine = (
        2 * model_of("siglip2", checkpoints, scale="cosine_shift").relevance(city, indices, words, (), executor()) - 1
    )
    try:
        for scale, bias in ((np.log(117.0), -12.9), (np.log(20.0), 3.0)):
            with torch.no_grad():
                network.logit_scale.fill_(scale), network.logit_bias.fill_(bias)
            found = model.relevance(city, indices, words, (), executor())
            pixels = model.load().processor.image_processor(list(city.frames(indices)), return_tensors="pt")
            tokens = model._tokens(model.load().processor.tokenizer, words, network.config.text_config)
            with torch.inference_mode():
                logits = network(pixel_values=pixels["pixel_values"], **tokens).logits_per_image[:, 0]
            assert found == pytest.approx(torch.sigmoid(logits).numpy(), abs=0.02)
            assert found == pytest.approx(1 / (1 + np.exp(-(np.exp(scale) * cosine + bias))), abs=1e-6)
    finally:
        with torch.no_grad():
            network.logit_scale.copy_(kept[0]), network.logit_bias.copy_(kept[1])


@every_model
def test_features_are_computed_once_and_survive_the_process(name, checkpoints, city, tmp_path):
    indices = list(range(0, 30, 3))
    first = model_of(name, checkpoints)
    answers = [
        first.relevance(city, indices, text, (), executor(cache=ToolCache(tmp_path))) for text in ("a box", "a sign")
    ]
    again = model_of(name, checkpoints, batch_size=3)
    again.observe = lambda *_: pytest.fail("the images are looked at again")
    for text, answer in zip(("a box", "a sign"), answers, strict=True):
        stored = again.relevance(city, indices, text, (), executor(cache=ToolCache(tmp_path)))
        assert stored.tobytes() == answer.tobytes()
    other = model_of(name, checkpoints, dtype="float32").settings()
    assert other != first.settings() and json.loads(json.dumps(other)) == other, "another dtype, another key"
    assert "image_features" not in executor().tools, "no sub-query can be sent to it"


@every_model
def test_the_question_matters_and_may_be_long(name, checkpoints, city):
    model, tools, indices = model_of(name, checkpoints, scale="cosine_shift"), executor(), [0, 12, 25]
    short, other = (model.relevance(city, indices, text, (), tools) for text in ("a red box", "museum"))
    assert not np.allclose(short, other)
    long = model.relevance(city, indices, "a red box " * 50, (), tools)
    assert np.isfinite(long).all()
    if name == "siglip2":
        assert (model.relevance(city, indices, "A RED Box", (), tools) == short).all(), "text is lower-cased"


@every_model
def test_what_else_is_in_a_batch_does_not_count(name, checkpoints):
    images = np.random.default_rng(0).integers(0, 256, (5, 40, 60, 3), dtype=np.uint8)
    batch = FrameBatch(images, tuple(range(5)), tuple(i / 10 for i in range(5)))
    together = model_of(name, checkpoints, batch_size=4).observe(batch, SubQuery("", "text"), ())
    alone = model_of(name, checkpoints, batch_size=1).observe(batch, SubQuery("", "text"), ())
    for (one,), (other,) in zip(together, alone, strict=True):
        assert unpacked(one.label) == pytest.approx(unpacked(other.label), abs=2e-3)
        assert np.linalg.norm(unpacked(one.label)) == pytest.approx(1, abs=1e-3)


def test_packing_costs_less_than_a_thousandth_of_a_cosine():
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(50, 768))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    stored = np.stack([unpacked(packed(vector)) for vector in vectors])
    assert np.abs(stored @ vectors.T - vectors @ vectors.T).max() < 1e-3 and len(packed(vectors[0])) == 2048


@every_model
def test_faults_name_the_way_out(name, checkpoints, city, tmp_path):
    kind = MODELS[name][1]
    with pytest.raises(ConfigError) as caught:
        kind(scale="rank", batch_size=0, dtype="int8")
    known = "quantile, cosine_shift, probability" if name == "siglip2" else "quantile, cosine_shift"
    assert len(caught.value.faults) == 3
    assert f"relevance.scale='rank' is unknown to {kind.__name__}; known: {known}\n" in f"{caught.value}\n"
    missing = kind(f"trustvid-tests/no-such-{name}", offline=True)
    with pytest.raises(TrustvidError, match=f"hf download trustvid-tests/no-such-{name}") as caught:
        missing.relevance(city, [0], QUESTION, WORDS, executor())
    assert "relevance=lexical" in str(caught.value)
    other = "siglip2" if name == "clip" else "clip"
    with pytest.raises(TrustvidError, match=f"expected a {kind.architecture.network}"):
        kind(checkpoints[other]).load()
    with pytest.raises(TrustvidError, match="not done within"):
        slow = Executor({}, ToolCache(tmp_path), time_limit_s=1e-9)
        model_of(name, checkpoints).relevance(city, [0], QUESTION, WORDS, slow)


def test_features_that_are_no_direction_are_refused_and_not_stored(checkpoints, city, tmp_path):
    import torch

    model = Clip(checkpoints["clip"], offline=True)
    weights = model.load().network.visual_projection.weight
    kept = weights.detach().clone()
    try:
        with torch.no_grad():
            weights.fill_(float("nan"))
        with pytest.raises(TrustvidError, match=r"city: .*not finite; try dtype=float32"):
            model.relevance(city, [0, 1], QUESTION, WORDS, executor(cache=ToolCache(tmp_path)))
    finally:
        with torch.no_grad():
            weights.copy_(kept)
    assert np.isfinite(model.relevance(city, [0, 1], QUESTION, WORDS, executor(cache=ToolCache(tmp_path)))).all()


# ---- in a method ---------------------------------------------------------------------------------------------------


def pipeline(tools: Executor, evidence: str = "tools", **parts: Any) -> Pipeline:
    parts = {"reliability": Off(), "selection": PaperTopK(), **parts}
    method = Method(evidence, 4, confidence=Intrinsic(), routing=Fixed(), synthesis=UniformSynthesis(), **parts)
    return Pipeline(method, tools, Prompts("full"))


def test_a_pass_selects_for_its_question(city, tools):
    view = View(city)
    ask = {word: Question(f"Where is the sign {word}?", ("left", "right")) for word in ("PIZZA", "MUSEUM")}
    plain = pipeline(tools)
    before = {word: drive(plain.run(question, view), ScriptedPolicy()) for word, question in ask.items()}
    assert before["PIZZA"].frames == before["MUSEUM"].frames == (0, 1, 2, 3), (
        "reliability is flat, Eq. 3 takes the first"
    )
    asked = pipeline(tools, relevance=Lexical())
    for word, question in ask.items():
        trajectory = drive(asked.run(question, view), ScriptedPolicy())
        assert set(trajectory.frames) <= frames_with(word, city, tools)
        asked_for = Lexical().relevance(
            city, range(city.n_frames), question.text, words_of(question.text, "left", "right"), tools
        )
        assert trajectory.relevance == tuple(asked_for[list(trajectory.frames)]) and min(trajectory.relevance) > 0.5
        assert Trajectory.from_json(json.loads(json.dumps(trajectory.to_json()))) == trajectory
        shown = [message.frames for message in trajectory.messages if message.frames]
        assert shown and all(frames == trajectory.frames for frames in shown)
        assert all(
            set(item.frames) == set(trajectory.frames) for item in trajectory.evidence if item.tool == "read_text"
        )
    direct = pipeline(tools, evidence="frames", relevance=Lexical()).run(ask["MUSEUM"], view)
    shown = next(direct).messages[-1].frames
    assert set(shown) <= frames_with("MUSEUM", city, tools), "without tools as well"
    with pytest.raises(StopIteration) as stop:
        direct.send("<answer>A</answer>")
    assert len(stop.value.value.relevance) == len(shown) == 4
    same = drive(pipeline(tools, relevance=NoRelevance()).run(ask["PIZZA"], view), ScriptedPolicy())
    assert json.dumps(same.to_json()) == json.dumps(before["PIZZA"].to_json()), "none changes nothing"
    assert same.relevance == ()
    old = {key: value for key, value in same.to_json().items() if key != "relevance"}
    assert Trajectory.from_json(old) == same, "a record of an earlier release"


def test_per_tool_frames_and_frames_without_a_question(city, tools):
    n = city.n_frames
    own = pipeline(tools, relevance=Lexical(), per_tool_frames=True)
    profile = Profile(tuple(range(n)), np.zeros(n), yields={"read_text": np.ones(n)})
    relevance = np.zeros(n)
    relevance[[5, 7, 11, 13]] = 1.0
    assert own.frames_for("read_text", View(city), profile, (0, 1, 2, 3), relevance) == (5, 7, 11, 13)
    assert own.frames_for("read_text", View(city), profile, (0, 1, 2, 3)) == (0, 1, 2, 3)

    class Known:
        """An estimator that always says the same."""

        def profile(self, clip, measure=None):
            return profile

    asked = Question("What does the sign PIZZA say?", ("left", "right"))
    trajectory = drive(
        pipeline(tools, relevance=Lexical(), per_tool_frames=True, reliability=Known()).run(asked, View(city)),
        ScriptedPolicy(),
    )
    looks = [item.frames for item in trajectory.evidence if item.tool == "read_text"]
    assert looks and all(set(frames) <= frames_with("PIZZA", city, tools) for frames in looks)


def test_a_pass_says_mean_s_and_refines_on_relevant_frames(city):
    class Unsure(Watched):
        """Reads, and believes nothing of it."""

        def summarise(self, observations):
            return super().summarise(observations)[0], 0.1

    question = Question("Which sign is left of the sign PIZZA?", ("POST", "PARK"))
    parts = {"reliability": Paper(), "selection": PaperTopK(theta_rel=0.0), "refine": True}
    plain, asked = (
        drive(pipeline(executor(Unsure()), relevance=relevance, **parts).run(question, View(city)), ScriptedPolicy())
        for relevance in (NoRelevance(), Lexical())
    )
    profile = Paper().profile(city)
    relevance = Lexical().relevance(
        city, profile.indices, question.text, words_of(question.text, *question.options), executor()
    )
    s = dict(zip(profile.indices, profile.reliability * relevance, strict=True))
    select = {name: run.frame_calls[1] for name, run in (("plain", plain), ("asked", asked))}
    assert select["asked"].tool == "select_frames" and select["asked"].frames == asked.frames
    assert select["asked"].confidence == pytest.approx(np.mean([s[frame] for frame in asked.frames]))
    assert select["plain"].confidence == pytest.approx(np.mean(profile.reliability_of(plain.frames)))
    retrieved = next(call for call in asked.frame_calls if call.tool == "retrieve_frames")
    pool = sorted((frame for frame in profile.indices if frame not in asked.frames), key=lambda frame: -s[frame])
    assert min(s[frame] for frame in retrieved.frames) >= s[pool[3]] - 0.1, "Eq. 3 on the pool, to a tenth"
    assert retrieved.frames != next(c for c in plain.frame_calls if c.tool == "retrieve_frames").frames


def test_a_relevance_that_fails_leaves_the_question_unanswered_and_says_why(city):
    failing = pipeline(executor(Watched(fails=True)), relevance=Lexical())
    with pytest.raises(TrustvidError, match="relevance=lexical: read_text: RuntimeError: no light"):
        drive(failing.run(Question("Where is PIZZA?", ("left", "right")), View(city)), ScriptedPolicy())


# ---- config --------------------------------------------------------------------------------------------------------


def composed(*overrides: str) -> dict:
    return OmegaConf.to_container(compose_config(overrides), resolve=True)


def test_no_method_knows_the_question_unless_it_is_told_to():
    methods = composed(f"methods=[{','.join(group_options('methods'))}]")["methods"]
    assert len(methods) == len(group_options("methods"))
    for name, node in methods.items():
        assert node["relevance"] == {"_target_": "trustvid.tools.relevance.NoRelevance"}, name


@pytest.mark.parametrize(
    ("option", "kind"), [("none", NoRelevance), ("lexical", Lexical), ("clip", Clip), ("siglip2", Siglip2)]
)
def test_it_is_swapped_from_the_command_line(option, kind):
    assert option in group_options("relevance")
    config = composed(f"relevance@methods.robust_to.relevance={option}")
    check(config, EvaluateConfig)
    built = build(config["methods"]["robust_to"])
    assert type(built.relevance) is kind
    assert isinstance(build(config["methods"]["anchored"]).relevance, NoRelevance), "the others stay as they are"
    if isinstance(built.relevance, ImageText):
        default = kind()
        assert vars(built.relevance) == vars(default), "the file says what the code does"


def test_settings_are_reached_and_checked_from_the_command_line():
    config = composed(
        "relevance@methods.robust_to.relevance=clip",
        "methods.robust_to.relevance.scale=cosine_shift",
        "++methods.anchored.selection.relevance=0.3",
    )
    check(config, EvaluateConfig)
    assert build(config["methods"]["robust_to"]).relevance.scale == "cosine_shift"
    assert build(config["methods"]["anchored"]).selection.relevance == 0.3
    config["methods"]["robust_to"]["relevance"]["scale"] = "calibrated"
    with pytest.raises(ConfigError, match=r"relevance.scale='calibrated' is unknown to Clip; known: quantile, cosine"):
        check(config, EvaluateConfig)
