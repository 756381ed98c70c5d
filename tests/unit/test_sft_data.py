"""Sources of examples on real files: what is learned from, asked as evaluation asks, and what is refused or left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from trustvid.config.checking import build, check
from trustvid.config.compose import compose_config
from trustvid.errors import ConfigError, DataError
from trustvid.policy.base import Message
from trustvid.stages.sft import SftConfig, only_read, schedule
from trustvid.training.conversations import Conversation
from trustvid.training.data.base import Item, examples_of
from trustvid.training.data.questions import condition_of, named

VIDEOS = Path(__file__).resolve().parents[1] / "data" / "videos"
GOOD, OTHER, BROKEN = "v30_mixed_reliability_20f.mp4", "v06_seven_frames.mp4", "v11_truncated_no_moov.mp4"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def composed(cache: Path, *overrides: str) -> dict:
    cfg = compose_config(["stage=sft", f"paths.cache={cache}", *overrides], name="train")
    return only_read(OmegaConf.to_container(cfg, resolve=True))


def load(config: dict):
    check(config, SftConfig)
    return build(config["data"]).load(config)


def pairs_file(folder: Path, *rows: dict | str) -> str:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return str(folder / "pairs.jsonl")


def row(video: str = GOOD, **changes: str) -> dict:
    return {"video": video, "instruction": "Describe it in one word.", "response": "Dark", **changes}


def triplets(cache: Path, tmp_path: Path, *rows: dict | str, **settings: object) -> dict:
    more = [f"{name}={value}" for name, value in settings.items()]
    file = pairs_file(tmp_path, *rows)
    return composed(cache, "data=triplets", f"data.file={file}", f"data_dir={VIDEOS}", *more)


# -- triplets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("evidence", ["none", "tools"])
def test_a_pair_is_asked_as_evaluation_asks(cache, tmp_path, evidence):
    """The messages are those that the evaluation's own worker sends to the policy that its config names."""
    from trustvid.evaluation import caption_runner

    config = triplets(cache, tmp_path, row(), evidence=evidence, frames=5, prompts="compact")
    (conversation,) = load({**config, "data": {**config["data"], "held_out": 0.0}}).learned

    class Kept:
        name, asked = "kept", []

        def generate(self, requests):
            self.asked += requests
            return ["Dark"] * len(requests)

    overrides = [f"paths.cache={cache}", f"evidence={evidence}", "frames=5", "prompts=compact", "policy=scripted"]
    evaluation = OmegaConf.to_container(compose_config(overrides), resolve=True)
    worker = caption_runner.set_up(evaluation)
    worker = caption_runner.CaptionWorker(**{**vars(worker), "policy": Kept()})
    unit = {
        "video": str(VIDEOS / GOOD),
        "captioner": "kept",
        "tasks": [{"id": "1", "instruction": row()["instruction"]}],
    }
    list(caption_runner.caption_video(worker, unit))
    assert conversation.messages == (*Kept.asked[0].messages, Message("assistant", "Dark"))
    assert ("## Evidence" in conversation.messages[-2].text) == (evidence == "tools")
    assert len(conversation.messages[-2].frames) == 5
    assert conversation.clip().frames([0]).shape[3] == 3


def test_what_cannot_be_used_is_left_out_with_its_reason(cache, tmp_path):
    rows = [row(), row(OTHER, response=" "), row(BROKEN), row("none.mp4"), row("../x.mp4"), "{", {"video": GOOD}]
    examples = load(triplets(cache, tmp_path, *rows, **{"data.held_out": 0}))
    assert [one.key for one in examples.learned] == ["pairs.jsonl:1"]
    reasons = "\n".join(examples.left_out)
    for part in (":2: the response is empty", f"{BROKEN}: ", "missing video", "leaves the folder", "not JSON"):
        assert part in reasons
    assert len(examples.left_out) == 6 and "lacks instruction, response" in reasons
    assert "6 left out" in "\n".join(examples.lines())
    with pytest.raises(DataError, match="nothing to learn from"):
        load(triplets(cache, tmp_path, row(BROKEN)))


@pytest.mark.parametrize("split", ["test", "val", "dev"])
def test_a_line_of_another_split_is_refused(cache, tmp_path, split):
    load(triplets(cache, tmp_path, row(split="train"), **{"data.held_out": 0}))
    with pytest.raises(DataError, match=f"pairs.jsonl:2: is of split '{split}'"):
        load(triplets(cache, tmp_path, row(split="train"), row(split=split)))


def test_the_official_shape(cache, tmp_path):
    (tmp_path / "annotation").mkdir()
    (tmp_path / "videos").mkdir()
    shutil.copy(VIDEOS / GOOD, tmp_path / "videos" / "clip_001.mp4")
    entry = {"field": "For Retrieval", "constraints_used": ["count"]}
    prompts = [{**entry, "prompt_id": f"0{n}", "generated_prompt": f"Give {n} tags."} for n in (1, 2, 3)]
    (tmp_path / "annotation" / "prompt.json").write_text(json.dumps({"clip_001": prompts}))
    responses = [{"prompt_id": "01", "response": "dark"}, {"prompt_id": "03", "response": "a; b; c"}]
    (tmp_path / "mine_response.json").write_text(json.dumps({"clip_001": responses}))
    config = composed(
        cache,
        "data=triplets",
        f"data_dir={tmp_path}",
        f"data.responses={tmp_path}/mine_response.json",
        "data.held_out=0",
    )
    examples = load(config)
    assert [one.key for one in examples.learned] == ["clip_001/01", "clip_001/03"]
    assert [one.messages[-1].text for one in examples.learned] == ["dark", "a; b; c"]
    assert "Give 3 tags." in examples.learned[1].messages[-2].text
    assert examples.left_out == ["clip_001/02: no response"]


# -- the set as a whole ------------------------------------------------------------------------------------------------


def items(videos: int) -> list[Item]:
    said = (Message("user", "?"), Message("assistant", "!"))
    return [Item(Conversation(f"{video}/{n}", said), f"v{video}", "ab"[n]) for video in range(videos) for n in (0, 1)]


def test_whole_videos_are_held_out_by_name_and_seed():
    examples = examples_of(items(100), 0.2, seed=0)
    videos = [{one.key.partition("/")[0] for one in part} for part in (examples.learned, examples.held_out)]
    assert not videos[0] & videos[1] and 10 <= len(videos[1]) <= 30
    assert examples.parts.count("a") == examples.parts.count("b") == len(examples.learned) / 2
    assert examples_of(items(100)[::-1], 0.2, seed=0).held_out == examples.held_out[::-1]
    assert examples_of(items(100), 0.2, seed=1).held_out != examples.held_out
    twice = examples_of([*items(1), *items(1)], 0.0, seed=0)
    assert [one.key for one in twice.learned] == ["0/0", "0/1", "0/0 #2", "0/1 #2"]
    assert twice.digest != examples_of(items(1), 0.0, seed=0).digest == examples_of(items(1), 0.0, seed=5).digest


def test_steps_come_from_epochs_steps_or_phases(cache):
    parts = ["answers"] * 40 + ["trajectories"] * 30
    cases = {
        (): 8,  # 2 epochs of 70 // 16
        ("epochs=0.5",): 2,
        ("steps=7",): 7,
        ("phases=[{part: answers, steps: 5}, {part: trajectories, steps: 4}]",): 9,
    }
    for overrides, steps in cases.items():
        order, found = schedule(check(composed(cache, *overrides), SftConfig), parts)
        assert found == steps and len(order.samples(0)) == 16
    typed = check(composed(cache, "phases=[{part: thoughts, steps: 5}]"), SftConfig)
    with pytest.raises(ConfigError, match="part thoughts is none of the data's: answers, trajectories"):
        schedule(typed, parts)


def test_conditions_round_trip():
    for condition in (None, ("glare", 3, 0.5), ("motion_blur", 5, 1.0)):
        assert condition_of(named(condition)) == condition
    with pytest.raises(DataError, match="is no condition"):
        condition_of("glare:s3:c0.5")


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["dev", "val", "test"])
@pytest.mark.parametrize("data", ["boxworld_captions", "teacher", "mcq", "rollouts"])
def test_nothing_is_learned_from_other_splits(cache, data, split):
    more = ["benchmark=boxworld"] if data != "boxworld_captions" else []
    more += ["data.file=rollouts.jsonl"] if data == "rollouts" else []
    check(composed(cache, f"data={data}", *more), SftConfig)
    with pytest.raises(ConfigError, match=f"benchmark.split={split}: expected train"):
        check(composed(cache, f"data={data}", *more, f"benchmark.split={split}"), SftConfig)


def test_all_faults_come_together(cache):
    config = composed(
        cache,
        "data=teacher",
        "benchmark=boxworld",
        "data.passes=0",
        "data.held_out=1",
        "epochs=0",
        "batch_size=3",
        "trainer=ddp",
        "evidence=some",
        "methods=[trained,direct]",
        "policy=scripted",
        "steps=4",
        "phases=[{part: answers}]",
        "optimizer.lr=-1",
    )
    with pytest.raises(ConfigError) as caught:
        check(config, SftConfig)
    text = str(caught.value)
    for part in (
        "data.passes=0; expected at least 1",
        "data.held_out=1",
        "epochs=0",
        "batch_size=3 cannot be dealt to 2 processes evenly",
        "evidence=some is unknown",
        "expected one, e.g. [trained]",
        "has no weights to train",
        "steps=4 beside phases",
        "expected {part: …, steps: …}",
        "optimizer.lr=-1",
    ):
        assert part in text, part


def test_groups_that_the_data_does_not_read_do_not_bind(cache):
    """32 frames are more than the method's selection keeps: no matter to captions, a fault of a teacher."""
    check(composed(cache, "frames=32"), SftConfig)
    with pytest.raises(ConfigError, match="frames=32; its selection keeps 4 to 12"):
        check(composed(cache, "frames=32", "data=teacher", "benchmark=boxworld"), SftConfig)
    assert composed(cache)["methods"] == {} and composed(cache)["tools"] == {}
    assert composed(cache, "evidence=tools")["tools"]


def test_a_captioner_that_thinks_is_refused(cache):
    with pytest.raises(ConfigError, match="the responses hold no thoughts"):
        check(composed(cache, "captioning=internvl3_5_8b_thinking"), SftConfig)
