"""Tools that run published models, on tiny random checkpoints of the same architectures, loaded by the same code.

pytest tests/unit/test_tools_backends.py -q
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from trustvid.errors import ConfigError, TrustvidError
from trustvid.tools.cache import ToolCache, fingerprint
from trustvid.tools.evidence import Evidence, FrameBatch, Observation, SubQuery
from trustvid.tools.executor import Executor
from trustvid.tools.pretrained.blip import Blip
from trustvid.tools.pretrained.clip_zero_shot import ClipZeroShot
from trustvid.tools.pretrained.grounding_dino import GroundingDino, prompt_of, tokens_in
from trustvid.tools.pretrained.models import load
from trustvid.tools.pretrained.open_vocabulary import distinct
from trustvid.tools.pretrained.owlv2 import Owlv2
from trustvid.tools.pretrained.phrases import object_phrases, with_article
from trustvid.tools.pretrained.videomae import VideoMae, spread
from trustvid.video.reader import open_clip

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

VIDEOS = Path(__file__).resolve().parents[1] / "data" / "videos"
QUERY = SubQuery("Where is the red car, left of the tower?", "spatial")
WORDS = ("WHERE", "PERSON", "TOWER", "RED")
# Everything is told: random weights are sure of nothing.
TOOLS: dict[str, Callable[..., Any]] = {
    "grounding_dino": lambda model, **more: GroundingDino(model, **{"min_score": 0.0, **more}),
    "owlv2": lambda model, **more: Owlv2(model, **{"min_score": 0.0, **more}),
    "videomae": lambda model, **more: VideoMae(model, **{"min_score": 0.0, **more}),
    "clip_zero_shot": lambda model, **more: ClipZeroShot(model, **{"min_score": 0.0, **more}),
    "blip": lambda model, **more: Blip(model, **{"max_new_tokens": 6, **more}),
}
GROUPS = {
    "grounding_dino": "detect_objects",
    "owlv2": "detect_objects",
    "videomae": "recognize_action",
    "clip_zero_shot": "recognize_action",
    "blip": "caption_frame",
}
DETECTORS = ("grounding_dino", "owlv2")
every_backend = pytest.mark.parametrize("backend", list(TOOLS))
every_batched = pytest.mark.parametrize("backend", [name for name in TOOLS if name != "videomae"])  # one clip at a time
every_detector = pytest.mark.parametrize("backend", DETECTORS)

# ---- tiny checkpoints ----------------------------------------------------------------------------------------------

SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}


def bert_tokenizer(**more: Any) -> Any:
    """Words and letters at the places of BERT's vocabulary: Grounding DINO knows "." and the like by their numbers."""
    tokens = [f"[unused{place}]" for place in range(1100)]
    tokens[0], tokens[1012], tokens[1029] = "[PAD]", ".", "?"
    tokens[100:104] = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    for place, letter in enumerate("abcdefghijklmnopqrstuvwxyz"):
        tokens[200 + place], tokens[300 + place] = letter, f"##{letter}"
    tokens[400:404] = ["red", "car", "object", "person"]  # "tower" is spelt in letters: a word of several tokens
    return transformers.BertTokenizer(vocab={token: place for place, token in enumerate(tokens)}, **more)


def clip_tokenizer(length: int, **more: Any) -> Any:
    """CLIP's byte-level tokenizer without merges: every letter is a token."""
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted({*ByteLevel.alphabet()} - {"!"})
    tokens = ["!", *letters, *(f"{letter}</w>" for letter in ["!", *letters]), "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {token: place for place, token in enumerate(tokens)}
    return transformers.CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=length, **more)


def ends_of(tokenizer: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


def tiny_grounding_dino() -> tuple[Any, Any]:
    config = transformers.GroundingDinoConfig(
        backbone_config=transformers.SwinConfig(
            image_size=64, embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 2], window_size=4,
            out_indices=[2, 3, 4],
        ),
        text_config=transformers.BertConfig(vocab_size=1100, **SMALL),
        d_model=32, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=64, decoder_ffn_dim=64,
        encoder_attention_heads=2, decoder_attention_heads=2, num_queries=30, init_std=0.3,
    )  # fmt: skip
    images = transformers.GroundingDinoImageProcessor(size={"shortest_edge": 64, "longest_edge": 96})
    processor = transformers.GroundingDinoProcessor(images, bert_tokenizer())
    return transformers.GroundingDinoForObjectDetection(config), processor


def tiny_owlv2() -> tuple[Any, Any]:
    tokenizer = clip_tokenizer(16, pad_token="!")  # noqa: S106 (a token of text)
    config = transformers.Owlv2Config(
        text_config={**SMALL, **ends_of(tokenizer), "max_position_embeddings": 16},
        vision_config={**SMALL, "image_size": 64, "patch_size": 16},
        projection_dim=32,
    )
    images = transformers.Owlv2ImageProcessor(size={"height": 64, "width": 64})
    network = transformers.Owlv2ForObjectDetection(config)
    with torch.no_grad():  # as they come, scores are 0 or 1 and boxes are slivers
        network.box_head.dense2.weight *= 0.1
        network.class_head.logit_shift.weight *= 0.05
        network.class_head.logit_scale.weight *= 0.05
    return network, transformers.Owlv2Processor(images, tokenizer)


def tiny_videomae() -> tuple[Any, Any]:
    labels = dict(enumerate(["walking", "riding a bike", "cooking"]))
    config = transformers.VideoMAEConfig(
        image_size=32, num_frames=16, initializer_range=0.3, id2label=labels,
        label2id={label: place for place, label in labels.items()}, **SMALL,
    )  # fmt: skip
    images = transformers.VideoMAEImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return transformers.VideoMAEForVideoClassification(config), images


def tiny_clip() -> tuple[Any, Any]:
    tokenizer = clip_tokenizer(77)
    config = transformers.CLIPConfig(
        text_config={**SMALL, **ends_of(tokenizer), "max_position_embeddings": 77},
        vision_config={**SMALL, "image_size": 32, "patch_size": 16},
        projection_dim=32,
    )
    images = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return transformers.CLIPModel(config), transformers.CLIPProcessor(images, tokenizer)


def tiny_blip() -> tuple[Any, Any]:
    tokenizer = bert_tokenizer(additional_special_tokens=["[DEC]"])
    text = {"vocab_size": len(tokenizer), "bos_token_id": 1100, "encoder_hidden_size": 32, "initializer_range": 0.5}
    config = transformers.BlipConfig(
        text_config={**SMALL, **text, "max_position_embeddings": 64, "sep_token_id": 102, "pad_token_id": 0},
        vision_config={**SMALL, "image_size": 32, "patch_size": 16, "initializer_range": 0.3},
    )
    images = transformers.BlipImageProcessor(size={"height": 32, "width": 32})
    network = transformers.BlipForConditionalGeneration(config)
    with torch.no_grad():  # some sentences come to an end
        network.text_decoder.cls.predictions.bias[102] += 6.0
    return network, transformers.BlipProcessor(images, tokenizer)


BUILDERS = {
    "grounding_dino": tiny_grounding_dino,
    "owlv2": tiny_owlv2,
    "videomae": tiny_videomae,
    "clip_zero_shot": tiny_clip,
    "blip": tiny_blip,
}


def save_checkpoints(names: Sequence[str], root: Path) -> dict[str, str]:
    """Write tiny checkpoints into folders of ``root``; name → folder."""
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    for name in names:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            network, processor = BUILDERS[name]()
        network.save_pretrained(root / name)
        processor.save_pretrained(root / name)
    return {name: str(root / name) for name in names}


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folder of a tiny checkpoint of each architecture, saved as the published ones are."""
    return save_checkpoints(list(BUILDERS), tmp_path_factory.mktemp("checkpoints"))


# ---- frames --------------------------------------------------------------------------------------------------------


def batch(images: Sequence[np.ndarray], first: int = 0) -> FrameBatch:
    places = range(first, first + len(images))
    return FrameBatch(np.stack(images), tuple(places), tuple(place / 10 for place in places))


def noise(count: int, height: int = 60, width: int = 90, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def run(tool: Any, clip: Any, frames: Sequence[int], cache: ToolCache | None = None) -> Evidence:
    return Executor({tool.name: tool}, cache, time_limit_s=120, window_s=0.4).run(tool.name, QUERY, clip, frames, WORDS)


def flat(outputs: Sequence[Sequence[Observation]]) -> list[Observation]:
    return [seen for output in outputs for seen in output]


def same(mine: Sequence[Observation], others: Sequence[Observation]) -> None:
    """Equal but for what arithmetic in another batch rounds otherwise."""
    assert [(o.frame, o.time, o.kind, o.label, o.values) for o in mine] == [
        (o.frame, o.time, o.kind, o.label, o.values) for o in others
    ]
    assert [o.score for o in mine] == pytest.approx([o.score for o in others], abs=2e-4)
    for one, other in zip(mine, others, strict=True):
        assert one.box == pytest.approx(other.box, abs=5e-4) if one.box else other.box is None


# ---- every backend -------------------------------------------------------------------------------------------------


@every_backend
def test_it_runs_on_a_real_video_and_a_second_run_comes_from_the_cache(backend, checkpoints, tmp_path):
    clip = open_clip(VIDEOS / "v01_cfr30_90f.mp4")
    tool = TOOLS[backend](checkpoints[backend])
    evidence = run(tool, clip, [5, 40, 80], ToolCache(tmp_path))
    assert evidence.error is None and evidence.observations and evidence.tool == GROUPS[backend]
    kind = {"detect_objects": "object", "recognize_action": "action", "caption_frame": "caption"}[evidence.tool]
    for seen in evidence.observations:
        assert seen.kind == kind and seen.label and 0 <= seen.score <= 1
        assert (seen.box is not None) == (kind == "object")
        if seen.box:
            x0, y0, x1, y1 = seen.box
            assert 0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1
    mean = sum(seen.score for seen in evidence.observations) / len(evidence.observations)
    assert evidence.intrinsic == pytest.approx(max(mean, 0.01)) and evidence.observations[0].label in evidence.result

    again = TOOLS[backend](checkpoints[backend])
    again.load = pytest.fail  # the model is not needed
    assert run(again, open_clip(VIDEOS / "v01_cfr30_90f.mp4"), [5, 40, 80], ToolCache(tmp_path)) == evidence


@every_backend
def test_real_footage_gives_every_frame_its_own_output(backend, checkpoints, real_clips):
    clip = open_clip(real_clips["bikes"])
    evidence = run(TOOLS[backend](checkpoints[backend]), clip, [0, clip.n_frames // 2])
    assert evidence.error is None
    by_frame = {seen.frame: [] for seen in evidence.observations}
    for seen in evidence.observations:
        by_frame[seen.frame].append((seen.label, seen.score, seen.box))
    assert len(by_frame) >= 2 and len({str(seen) for seen in by_frame.values()}) >= 2


@every_batched
def test_what_else_is_in_a_batch_does_not_count(backend, checkpoints):
    images = noise(7)
    tool = TOOLS[backend](checkpoints[backend], batch_size=3)
    together = tool.observe(batch(images), QUERY, WORDS)
    assert len(together) == len(images)
    one_by_one = TOOLS[backend](checkpoints[backend], batch_size=1)
    for t, output in enumerate(together):
        (alone,) = one_by_one.observe(batch(images[t : t + 1], t), QUERY, WORDS)
        same(output, alone)
    assert flat(together) == flat(
        TOOLS[backend](checkpoints[backend], batch_size=3).observe(batch(images), QUERY, WORDS)
    )


@every_backend
@pytest.mark.parametrize("size", [(240, 320), (37, 53), (120, 40)])
def test_blank_frames(backend, size, checkpoints):
    tool = TOOLS[backend](checkpoints[backend])
    for grey in (0, 128, 255):
        seen = flat(tool.observe(batch([np.full((*size, 3), grey, np.uint8)] * 2), QUERY, WORDS))
        assert all(np.isfinite([one.score, *(one.box or ())]).all() for one in seen)
    result, intrinsic = tool.summarise([])
    assert intrinsic == 0.0 and result.startswith("no")


@every_backend
@pytest.mark.parametrize("name", ["v27_black_15f.mp4", "v28_white_15f.mp4"])
def test_blank_videos_are_no_failure(backend, name, checkpoints):
    assert run(TOOLS[backend](checkpoints[backend]), open_clip(VIDEOS / name), [3, 10]).error is None


@every_backend
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_runs(backend, dtype, checkpoints):
    tool = TOOLS[backend](checkpoints[backend], dtype=dtype)
    assert flat(tool.observe(batch(noise(2)), QUERY, WORDS))
    assert tool.load().network.dtype == getattr(torch, dtype)


@every_backend
def test_missing_weights_tell_the_way_out(backend, checkpoints, tmp_path):
    model = f"trustvid-tests/no-such-{backend}"
    tool = TOOLS[backend](model, revision="v2", offline=True)
    with pytest.raises(TrustvidError) as caught:
        tool.load()
    for part in (
        f"hf download {model} --revision v2",
        f"models--trustvid-tests--no-such-{backend}",
        f"tools/{GROUPS[backend]}=embedded",
    ):
        assert part in str(caught.value), str(caught.value)
    evidence = run(tool, ArraySource(noise(8)), [1, 5])
    assert (evidence.error.kind, evidence.intrinsic) == ("exception", 0.0)
    assert evidence.error.message == f"{tool.name}: {caught.value}"
    for folder in (tmp_path, tmp_path / "gone"):
        with pytest.raises(TrustvidError, match=r"no complete model in this folder .* config\.json"):
            TOOLS[backend](str(folder)).load()
    # A folder that was filled meanwhile is found without starting anew.
    shutil.copytree(checkpoints[backend], tmp_path, dirs_exist_ok=True)
    assert not TOOLS[backend](str(tmp_path)).load().network.training


@every_backend
def test_weights_of_another_architecture_are_refused(backend, checkpoints, tmp_path):
    other = next(name for name in TOOLS if name != backend)
    with pytest.raises(TrustvidError, match=rf"is a \w+; expected a \w+, or use tools/{GROUPS[backend]}=embedded"):
        TOOLS[backend](checkpoints[other]).load()
    # The same model without the head for the task: it would run with random weights.
    shutil.copytree(checkpoints[backend], tmp_path / "headless")
    config = json.loads((tmp_path / "headless" / "config.json").read_text())
    config["architectures"] = [config["architectures"][0].partition("For")[0] + "ForPreTraining"]
    (tmp_path / "headless" / "config.json").write_text(json.dumps(config))
    with pytest.raises(TrustvidError, match=r"is a \w+ForPreTraining; expected a "):
        TOOLS[backend](str(tmp_path / "headless")).load()


@every_backend
def test_a_broken_file_is_a_typed_error(backend, checkpoints, tmp_path):
    shutil.copytree(checkpoints[backend], tmp_path / "broken")
    weights = tmp_path / "broken" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:2000])
    with pytest.raises(TrustvidError, match=f"cannot be loaded on cpu .* tools/{GROUPS[backend]}=embedded"):
        TOOLS[backend](str(tmp_path / "broken"), device="cpu").load()


@every_backend
def test_settings_hold_what_changes_the_output(backend, checkpoints, tmp_path):
    make, folder = TOOLS[backend], checkpoints[backend]

    def key(**settings: Any) -> str:
        return fingerprint(make(**{"model": folder, **settings}), QUERY, WORDS)

    json.dumps(make(folder).settings())
    size = {} if backend == "videomae" else {"batch_size": 2}
    assert key() == key(device="cpu", offline=True, **size), "no more than rounding"
    changes = [{"dtype": "bfloat16"}, {"min_score": 0.5}, {"model": "a/b"}, {"model": "a/b", "revision": "v1"}]
    changes += {
        "grounding_dino": [{"max_objects": 3}, {"max_overlap": 0.1}, {"max_phrases": 2}],
        "owlv2": [{"max_objects": 3}, {"max_overlap": 0.1}, {"max_phrases": 2}],
        "videomae": [],
        "clip_zero_shot": [{"actions": ["a", "b"]}, {"template": "{}"}],
        "blip": [{"max_new_tokens": 3}],
    }[backend]
    # Other weights under the same name, of the same size.
    replaced = tmp_path / backend
    shutil.copytree(folder, replaced)
    assert key(model=str(replaced)) == key(), "the same weights in another place"
    before = (replaced / "model.safetensors").read_bytes()
    (replaced / "model.safetensors").write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    keys = [key(), *(key(**change) for change in changes), key(model=str(replaced))]
    assert len(set(keys)) == len(keys)
    asked = fingerprint(make(folder), SubQuery("Where is the dog?", "spatial"), ())
    assert (asked != key()) == (backend in DETECTORS)


@every_backend
def test_tools_that_ask_for_the_same_model_share_it(backend, checkpoints):
    tool = TOOLS[backend](checkpoints[backend])
    assert tool.load() is TOOLS[backend](checkpoints[backend], min_score=0.9).load()
    assert (
        load(tool.checkpoint, tool.architecture)
        is load(dataclasses.replace(tool.checkpoint, device="cpu"), tool.architecture)
        or torch.cuda.is_available()
    )
    network = tool.load().network
    assert not network.training
    tool.observe(batch(noise(2)), QUERY, WORDS)
    assert all(parameter.grad is None for parameter in network.parameters())


def test_all_faults_come_together():
    wrong = {"model": "", "device": "gpu", "dtype": "int3", "min_score": 2}
    more = {
        "grounding_dino": {"batch_size": 0, "max_objects": 0, "max_overlap": -1, "max_phrases": 0},
        "owlv2": {"batch_size": 0, "max_objects": 0, "max_overlap": -1, "max_phrases": 0},
        "videomae": {},
        "clip_zero_shot": {"batch_size": 0, "actions": ["one"], "template": "a photo"},
        "blip": {"batch_size": 0, "max_new_tokens": 0},
    }
    for backend, tool in TOOLS.items():
        with pytest.raises(ConfigError) as caught:
            tool(**wrong, **more[backend])
        assert len(caught.value.faults) == 4 + len(more[backend]), caught.value.faults
        assert all(fault.startswith(f"{GROUPS[backend]}.") for fault in caught.value.faults)
    for actions in (["a", "a"], ["a", ""], ["a", 3]):
        with pytest.raises(ConfigError, match=r"recognize_action\.actions="):
            ClipZeroShot(actions=actions)


def test_every_config_builds_without_torch_and_names_its_published_model():
    code = (
        "import sys\n"
        "from trustvid.config.compose import compose_config\n"
        "from trustvid.config.checking import build, _component_faults\n"
        "from omegaconf import OmegaConf\n"
        f"for backend, tool in {GROUPS!r}.items():\n"
        "    choice = [f'tools/{tool}={backend}', 'tool_device=cuda:3']\n"
        "    config = OmegaConf.to_container(compose_config(choice), resolve=True)\n"
        "    node = config['tools'][tool]\n"
        "    assert not list(_component_faults('tool', node)), list(_component_faults('tool', node))\n"
        "    built = build(node)\n"
        "    default = type(built)()\n"
        "    assert built.settings() == default.settings(), (built.settings(), default.settings())\n"
        "    print(built.name, built.checkpoint.model, built.checkpoint.device)\n"
        "print('LOADED', sorted({'torch', 'transformers', 'cv2', 'av'} & set(sys.modules)))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "detect_objects IDEA-Research/grounding-dino-tiny cuda:3",
        "detect_objects google/owlv2-base-patch16-ensemble cuda:3",
        "recognize_action MCG-NJU/videomae-base-finetuned-kinetics cuda:3",
        "recognize_action openai/clip-vit-base-patch32 cuda:3",
        "caption_frame Salesforce/blip-image-captioning-base cuda:3",
        "LOADED []",
    ]


def test_a_hub_id_loads_from_the_local_cache(checkpoints, tmp_path):
    """In the layout that `hf download` leaves; the key then holds the commit, known before anything is loaded."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    for backend, folder in checkpoints.items():
        entry = tmp_path / f"models--tiny--{backend}"
        shutil.copytree(folder, entry / "snapshots" / commit)
        (entry / "refs").mkdir()
        (entry / "refs" / "main").write_text(commit)
    code = (
        "import sys, numpy as np, torch\n"
        "torch.set_num_threads(1)\n"
        "from tests.unit import test_tools_backends as tests\n"
        "for backend, make in tests.TOOLS.items():\n"
        "    tool = make(f'tiny/{backend}', offline=True)\n"
        "    key = tool.settings()\n"
        "    seen = tool.observe(tests.batch(tests.noise(3)), tests.QUERY, tests.WORDS)\n"
        "    assert seen == make(sys.argv[1] + '/' + backend).observe(tests.batch(tests.noise(3)), tests.QUERY, tests.WORDS)\n"
        "    assert tests.flat(seen) and tool.settings() == key\n"
        "    print(key['model'], key['weights'])\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(Path(checkpoints["blip"]).parent)],
        capture_output=True, text=True, cwd=VIDEOS.parents[2],
        env={"PATH": "/usr/bin:/bin", "HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1", "PYTHONPATH": "."},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [f"tiny/{backend} {commit}" for backend in TOOLS]


# ---- detectors -----------------------------------------------------------------------------------------------------


@every_detector
@pytest.mark.parametrize("size", [(60, 90), (90, 60)])
def test_boxes_are_those_of_the_librarys_own_post_processing(backend, size, checkpoints):
    (image,) = noise(1, *size)
    tool = TOOLS[backend](checkpoints[backend], max_overlap=1.0, max_objects=1000)
    (mine,) = tool.observe(batch([image]), QUERY, WORDS)
    phrases = ["red car", "tower", "person"]
    processor, network = tool.load().processor, tool.load().network
    text = prompt_of(phrases)[0] if backend == "grounding_dino" else [[f"a photo of a {phrase}" for phrase in phrases]]
    more = {} if backend == "grounding_dino" else {"truncation": True, "max_length": 16}
    inputs = processor(images=image, text=text, return_tensors="pt", **more)
    with torch.inference_mode():
        output = network(**inputs)
    names = {} if backend == "grounding_dino" else {"text_labels": [phrases]}
    (theirs,) = processor.post_process_grounded_object_detection(
        output, threshold=0.0, target_sizes=[size], **({"input_ids": inputs["input_ids"]} if not names else {}), **names
    )
    height, width = size
    corners = theirs["boxes"].clamp(min=0).numpy()
    corners[:, [0, 2]] = corners[:, [0, 2]].clip(max=width) / width
    corners[:, [1, 3]] = corners[:, [1, 3]].clip(max=height) / height
    assert len(mine) >= 5
    for seen in mine:
        distance = np.abs(corners - np.array(seen.box)).max(axis=1)
        if backend == "owlv2":
            apart = np.abs(theirs["scores"].numpy() - seen.score)
            assert np.min(distance + apart + [seen.label != label for label in theirs["text_labels"]]) < 4e-4
        else:  # the library's score also counts the full stops between phrases
            near = int(distance.argmin())
            assert distance[near] < 2e-4 and seen.score <= float(theirs["scores"][near]) + 1e-4


@every_detector
def test_labels_are_whole_phrases_of_what_is_asked(backend, checkpoints):
    tool = TOOLS[backend](checkpoints[backend])
    images = batch(noise(6))
    labels = {seen.label for seen in flat(tool.observe(images, QUERY, WORDS))}
    assert labels and labels <= {"red car", "tower", "person"}
    other = {seen.label for seen in flat(tool.observe(images, SubQuery("Count the dogs.", "spatial"), ()))}
    assert other == {"dogs"}
    nothing = {seen.label for seen in flat(tool.observe(images, SubQuery("What is there?", "spatial"), ("WHAT",)))}
    assert nothing == {"object"}


@every_detector
def test_thresholds_and_limits_hold(backend, checkpoints):
    images = batch(noise(3))
    everything = TOOLS[backend](checkpoints[backend], max_overlap=1.0, max_objects=1000).observe(images, QUERY, WORDS)
    scores = sorted(seen.score for seen in flat(everything))
    widest = int(np.diff(scores).argmax())
    middle = (scores[widest] + scores[widest + 1]) / 2
    kept = TOOLS[backend](checkpoints[backend], max_overlap=1.0, max_objects=1000, min_score=middle)
    assert flat(kept.observe(images, QUERY, WORDS)) == [seen for seen in flat(everything) if seen.score > middle]
    few = TOOLS[backend](checkpoints[backend], max_overlap=1.0, max_objects=2).observe(images, QUERY, WORDS)
    assert few == [output[:2] for output in everything]


def test_the_better_of_two_boxes_of_one_label_is_kept():
    found = [
        ("car", 0.9, (0, 0, 10, 10)), ("bus", 0.8, (0, 0, 10, 10)), ("car", 0.7, (0, 0, 10, 9)),
        ("car", 0.6, (0, 0, 10, 5)), ("car", 0.5, (20, 0, 30, 10)),
    ]  # fmt: skip
    assert [score for _, score, _ in distinct(found, 0.7)] == [0.9, 0.8, 0.6, 0.5]
    assert [score for _, score, _ in distinct(found, 0.3)] == [0.9, 0.8, 0.5]
    assert distinct(found, 1.0) == found


def test_a_phrase_has_the_tokens_of_its_words_only():
    text, spans = prompt_of(["red car", "tower", "dogs"])
    assert text == "a red car. a tower. dogs."
    encoded = bert_tokenizer()([text], return_offsets_mapping=True)
    tokens = bert_tokenizer().convert_ids_to_tokens(encoded["input_ids"][0])
    picked = [[tokens[place] for place in places] for places in tokens_in(encoded["offset_mapping"][0], spans)]
    assert picked == [["red", "car"], ["t", "##o", "##w", "##e", "##r"], ["d", "##o", "##g", "##s"]]


# ---- phrases -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "words", "phrases"),
    [
        ("Where is the red car, left of the traffic lights?", (), ("red car", "traffic lights")),
        ("Locate the wooden chair and the two people near the table.", (), ("wooden chair", "people", "table")),
        ("How many chairs are visible in the room?", ("CHAIRS", "SOFA"), ("chairs", "room", "sofa")),
        ("Which coloured things are there, and where in the picture?", ("TOWER", "RED", "LEFT"), ("tower",)),
        ("Is there a person standing next to the fire-hydrant?", (), ("person", "fire-hydrant")),
        ("What colour is the man's hat?", (), ("man hat",)),
        ("the big shiny new blue sports car", (), ("new blue sports car",)),
        ("Where is the red one?", ("RED", "BLUE"), ()),
        ("Find the car. Then find the car again!", ("CAR",), ("car",)),
        ("everything the tool can tell", (), ()),
        ("Where is the café, and the 3 bikes?", (), ("café", "bikes")),
        ("How does the red car move past the tower?", (), ("red car", "tower")),
        ("Does the dog cross the street, and does the car speed up or slow down?", (), ("dog", "street", "car")),
        ("Track the motion of the white van over time.", (), ("white van",)),
        ("How does the relative position of the bus change while the drone approaches it?", (), ("bus",)),
        ("Which object appears first: the lamp, the sofa or the table?", (), ("lamp", "sofa", "table")),
        ("", ("A", "IN", "OX", "7UP", "VAN"), ("van",)),
        ("", (), ()),
        ("?!., 12 -- :)", (), ()),
    ],
)
def test_object_phrases(query, words, phrases):
    assert object_phrases(query, words) == phrases


def test_phrases_of_the_query_come_first_and_are_limited():
    words = [f"thing{chr(97 + i)}" for i in range(20)]
    found = object_phrases("Where is the red car?", words, limit=3)
    assert found == ("red car", "thinga", "thingb")
    assert all("." not in phrase for phrase in object_phrases("the U.S. flag. a No. 7 bus", ()))


def test_articles():
    assert [with_article(phrase) for phrase in ("red box", "umbrella", "traffic lights", "bus", "glass", "chairs")] == [
        "a red box", "an umbrella", "traffic lights", "a bus", "a glass", "chairs",
    ]  # fmt: skip


# ---- actions and captions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 7, 16, 21])
def test_videomae_sees_a_window_as_a_clip_of_sixteen_frames(count, checkpoints):
    images = noise(count, 48, 64)
    tool = TOOLS["videomae"](checkpoints["videomae"])
    ((seen,),) = tool.observe(batch(images, 30), QUERY, ())
    model = tool.load()
    inputs = model.processor([images[place] for place in spread(count, 16)], return_tensors="pt")
    with torch.inference_mode():
        shares = model.network(**inputs).logits.softmax(-1)[0]
    assert seen.score == pytest.approx(float(shares.max()), abs=1e-4)
    assert seen.label == model.network.config.id2label[int(shares.argmax())]
    assert (seen.frame, seen.time) == (30, 3.0)
    assert seen.values == {"end_frame": 29 + count, "end_time": (29 + count) / 10}


@pytest.mark.parametrize("count", [1, 2, 5, 15, 16, 17, 21, 32, 61])
def test_sixteen_instants_are_spread_evenly(count):
    places = spread(count, 16)
    assert len(places) == 16 and places == sorted(places)
    assert places[0] <= count / 16 and places[-1] >= count - 1 - count / 16
    repeats = [places.count(place) for place in range(count)]
    assert max(repeats) - min(repeats) <= 1
    assert spread(16, 16) == list(range(16))


def test_videomae_has_one_output_for_each_window(checkpoints, tmp_path):
    clip, cache = ArraySource(noise(60, 48, 64)), ToolCache(tmp_path)
    evidence = run(TOOLS["videomae"](checkpoints["videomae"]), clip, [10, 12, 40], cache)
    assert [(seen.frame, seen.values["end_frame"]) for seen in evidence.observations] == [(8, 12), (10, 14), (38, 42)]
    again = TOOLS["videomae"](checkpoints["videomae"])
    again.load = pytest.fail  # the windows of single frames are those of all together
    assert run(again, clip, [12], cache).observations == evidence.observations[1:2]


def test_clip_chooses_as_the_library_does(checkpoints):
    images = noise(5, 48, 64)
    actions = ["flying over a city", "climbing stairs", "cooking"]
    tool = TOOLS["clip_zero_shot"](checkpoints["clip_zero_shot"], actions=actions, template="a photo of {}")
    model = tool.load()
    inputs = model.processor(
        images=list(images), text=[f"a photo of {action}" for action in actions], return_tensors="pt", padding=True
    )
    with torch.inference_mode():
        shares = model.network(**inputs).logits_per_image.softmax(-1)
    seen = flat(tool.observe(batch(images), QUERY, ()))
    assert [one.label for one in seen] == [actions[place] for place in shares.argmax(-1)]
    assert [one.score for one in seen] == pytest.approx(shares.max(-1).values.tolist(), abs=1e-4)
    unsure = TOOLS["clip_zero_shot"](checkpoints["clip_zero_shot"], actions=actions, min_score=1.0)
    assert unsure.observe(batch(images), QUERY, ()) == [[]] * 5


def test_the_score_of_a_caption_is_the_mean_probability_of_its_tokens(checkpoints):
    images = noise(6, 48, 64)
    tool = TOOLS["blip"](checkpoints["blip"], max_new_tokens=8)
    model = tool.load()
    seen = flat(tool.observe(batch(images), QUERY, ()))
    assert len(seen) == len(images) and len({len(one.label.split()) for one in seen}) > 1
    for image, one in zip(images, seen, strict=True):
        pixels = model.processor.image_processor(image, return_tensors="pt")["pixel_values"]
        with torch.inference_mode():
            tokens = model.network.generate(pixel_values=pixels, max_new_tokens=8, do_sample=False)
            logits = model.network(pixel_values=pixels, input_ids=tokens).logits
        shares = logits.softmax(-1)[0, :-1].gather(1, tokens[0, 1:, None])[:, 0]
        said = [float(p) for p, token in zip(shares, tokens[0, 1:].tolist(), strict=True) if token not in (0, 102)]
        assert one.score == pytest.approx(sum(said) / len(said), abs=1e-4)
        assert one.label == model.processor.tokenizer.decode(tokens[0], skip_special_tokens=True)


def observation(kind: str, time: float, label: str, score: float) -> Observation:
    return Observation(int(10 * time), time, kind, label, score)


def test_captions_are_told_once_each_in_order_of_time():
    seen = [observation("caption", *one) for one in [(0.4, "a dog", 0.8), (0.1, "a cat", 0.6), (0.6, "a cat", 0.7)]]
    result, intrinsic = Blip().summarise(seen)
    assert result == 'captions: "a cat" (in 2 frames, 0.1–0.6 s, score 0.70); "a dog" (at 0.4 s, score 0.80)'
    assert intrinsic == pytest.approx(0.7)
    assert Blip().summarise([observation("caption", i / 10, f"{i}", 0.5) for i in range(10)])[0].endswith("; 2 more")


def test_actions_are_told_by_first_sight_and_the_mean_top_1():
    seen = [
        observation("action", *one) for one in [(0.0, "walking", 0.9), (0.5, "cooking", 0.4), (1.0, "walking", 0.5)]
    ]
    for tool in (VideoMae(), ClipZeroShot()):
        result, intrinsic = tool.summarise(seen)
        assert result == "action: walking (in 2 frames, 0.0–1.0 s, score 0.90); cooking (at 0.5 s, score 0.40)"
        assert intrinsic == pytest.approx(0.6)
