"""Learned reliability: views, network and loss, training from generated clips to a profile, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.unit.fakes import ArraySource
from trustvid.agent.method import View
from trustvid.config.checking import build, check
from trustvid.config.compose import compose_config
from trustvid.corruption import corrupt
from trustvid.corruption.motion_blur import MotionBlur
from trustvid.errors import ConfigError, DataError
from trustvid.reliability import learned_fit
from trustvid.reliability.learned import Learned
from trustvid.reliability.learned_files import load_artefact, weights_digest
from trustvid.reliability.learned_net import Backbone, FrameReliabilityNet, reliability_loss
from trustvid.reliability.learned_views import frame_view
from trustvid.reliability.profile import Relative
from trustvid.stages.common import plain_config
from trustvid.stages.reliability import ReliabilityConfig, run
from trustvid.video.reader import open_clip

SMALL = Backbone("test_resnet", 64)
TOOLS = ("read_text", "detect_objects")

# -- views -------------------------------------------------------------------------------------------------------------


def test_a_view_is_the_whole_frame_above_unscaled_pieces_of_it():
    rng = np.random.default_rng(0)
    frame = rng.integers(0, 256, (240, 320, 3), dtype=np.uint8)
    view = frame_view(frame, 64)
    assert view.shape == (3, 128, 64) and view.dtype == np.uint8
    # The first cell is 60×80; the middle 16×16 of it begins at row 22, column 32.
    assert (view[:, 64:80, :16] == frame[22:38, 32:48].transpose(2, 0, 1)).all()
    assert view[:, :64].std() < 0.5 * view[:, 64:].std(), "shrinking averages noise out, fragments keep it"


@pytest.mark.parametrize("shape", [(1, 1), (5, 300), (1080, 1920), (144, 176)])
def test_a_view_exists_for_frames_of_any_size(shape):
    assert frame_view(np.full((*shape, 3), 90, np.uint8), 64).tolist() == np.full((3, 128, 64), 90).tolist()


# -- network -----------------------------------------------------------------------------------------------------------


def test_the_network_gives_log_odds_of_ramps_and_yields():
    net = FrameReliabilityNet(SMALL, TOOLS).eval()
    found = net(torch.zeros((3, 3, 128, 64), dtype=torch.uint8))
    assert found["ramps"].shape == (3, 10) and found["yields"].shape == (3, 2)
    assert torch.equal(found["yields"][0], found["yields"][1])


def test_a_frame_without_targets_teaches_no_yield_and_one_with_many_does_not_drown_the_rest():
    yields = torch.tensor([[2.0, -1.0], [0.0, 3.0]], requires_grad=True)
    predicted = {"ramps": torch.zeros(2, 10), "yields": yields}
    right, count = torch.tensor([[4.0, 0.0], [0.0, 0.0]]), torch.tensor([[4.0, 0.0], [1.0, 0.0]])
    loss = reliability_loss(predicted, torch.zeros(2, 10), right, count, ramp_weight=0.0)
    loss.backward()
    # √4 · log(1 + e^−2) and √1 · log 2, over √4 + √1.
    assert loss.item() == pytest.approx((2 * np.log1p(np.exp(-2)) + np.log(2)) / 3, rel=1e-5)
    assert yields.grad[:, 1].tolist() == [0.0, 0.0] and yields.grad[0, 0] < 0 < yields.grad[1, 0]


@pytest.mark.parametrize("backbone", [{"name": "mobilenetv4_conv_small_05"}, {"name": "test_resnet", "size": 60}])
def test_backbones_that_cannot_be_are_named(backbone):
    with pytest.raises(ConfigError, match=r"backbone\.(name=mobilenetv4_conv_small_05 is no model|size=60)"):
        FrameReliabilityNet(Backbone(**backbone), TOOLS)


def test_published_weights_that_cannot_be_fetched_end_with_the_way_out(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match=r"backbone\.pretrained=false"):
        FrameReliabilityNet(Backbone("test_resnet", 64, pretrained=True), TOOLS)


# -- fit ---------------------------------------------------------------------------------------------------------------


def table(n: int, seed: int) -> learned_fit.FrameTable:
    """Frames of noise or of none; a tool reports on those without."""
    rng = np.random.default_rng(seed)
    noisy = rng.random(n) < 0.5
    views = np.where(noisy[:, None, None, None], rng.integers(0, 256, (n, 3, 128, 64)), 120).astype(np.uint8)
    ramps = np.zeros((n, 10), np.float32)
    ramps[:, :2] = noisy[:, None]
    count = np.tile(np.float32([2, 0]), (n, 1))
    return learned_fit.FrameTable(
        views, ramps, count * ~noisy[:, None], count, np.array([f"v{i % 4}" for i in range(n)])
    )


def settings(**changes) -> learned_fit.FitSettings:
    values = {"epochs": 3, "batch_size": 8, "learning_rate": 3e-3, "weight_decay": 0.05, "patience": 9}
    return learned_fit.FitSettings(**{**values, "ramp_weight": 1.0, "seed": 0, **changes})


def trained(chosen: learned_fit.FitSettings, checkpoint: Path, stop_after: int | None = None):
    """Train on the table, storing each epoch; ``stop_after`` plays a kill."""
    torch.manual_seed(0)
    net = FrameReliabilityNet(SMALL, TOOLS)
    optimizer, state = learned_fit.new_optimizer(net, chosen), learned_fit.FitState()
    if checkpoint.is_file():
        state = learned_fit.load_checkpoint(checkpoint, net, optimizer)

    def on_epoch(now):
        learned_fit.save_checkpoint(checkpoint, net, optimizer, now)
        if now.epoch == stop_after:
            raise KeyboardInterrupt

    return learned_fit.train_epochs(net, optimizer, table(24, 1), table(12, 2), chosen, state, on_epoch, lambda: None)


def test_a_training_that_was_killed_ends_as_one_that_was_not(tmp_path):
    whole = trained(settings(), tmp_path / "whole.safetensors")
    with pytest.raises(KeyboardInterrupt):
        trained(settings(), tmp_path / "cut.safetensors", stop_after=1)
    rest = trained(settings(), tmp_path / "cut.safetensors")
    assert rest.history == whole.history and rest.best_epoch == whole.best_epoch
    assert all(torch.equal(rest.best[name], whole.best[name]) for name in whole.best)
    assert whole.history[-1]["dev_loss"] < whole.history[0]["dev_loss"]
    other = trained(settings(epochs=1, seed=1), tmp_path / "other.safetensors")
    assert other.history[0] != whole.history[0], "the seed orders the frames"


def test_training_stops_once_patience_is_over(tmp_path):
    # Steps so large that nothing is learnt: the held-out loss soon stops falling.
    state = trained(settings(epochs=30, learning_rate=1.0, patience=1), tmp_path / "c.safetensors")
    assert state.epoch < 30 and state.epoch - state.best_epoch == 1
    assert state.best_loss == min(row["dev_loss"] for row in state.history)


def test_a_foreign_checkpoint_is_refused(tmp_path):
    path = tmp_path / "c.safetensors"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="fresh=true"):
        trained(settings(), path)


def test_heads_are_calibrated_towards_what_came_and_ramps_can_only_harm():
    some = table(400, 3)
    network = np.tile(np.float32([[3.0, 0.0]]), (400, 1))  # sure of itself, whatever it sees
    alone = learned_fit.calibrate_heads(network, some, TOOLS, use_ramps=False)
    both = learned_fit.calibrate_heads(network, some, TOOLS, use_ramps=True)
    features = learned_fit.yield_features(network[:, 0], some.ramps)
    assert alone["read_text"].predict(features).mean() == pytest.approx((some.right / 2)[:, 0].mean(), abs=0.02)
    assert both["read_text"].coefficients["noise1"] + both["read_text"].coefficients["noise2"] < -1
    assert both["detect_objects"].coefficients == {"network": 1.0}, "no targets: left as the network says"


# -- from clips to a profile -------------------------------------------------------------------------------------------

WORDS = [
    "stage=reliability",
    "backbone=test",
    "corruption=[motion_blur]",
    "benchmark.n_videos=2",
    "benchmark.workers=0",
    "dev.n_videos=2",
    "cases.severities=[5]",
    "cases.frames=12",
    "~tools/caption_frame",
    "~tools/track_temporal",
    "~tools/recognize_action",
    "fit.epochs=12",
    "fit.batch_size=16",
    "fit.learning_rate=0.003",
    "fit.patience=12",
    "use_ramps=false",
    "workers=0",
    "threads=1",
    "device=cpu",
]


def config_of(folder: Path, *words: str):
    return compose_config([*WORDS, f"paths.outputs={folder}/outputs", f"paths.cache={folder}/cache", *words], "train")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, Path]:
    """(folder of a user, run folder of a training that ran to its end)."""
    before = torch.get_num_threads()
    folder = tmp_path_factory.mktemp("user")
    found = run(config_of(folder))
    torch.set_num_threads(before)
    return folder, found


def test_training_leaves_what_it_promises(finished):
    folder, run_folder = finished
    about = json.loads((run_folder / "weights" / "config.json").read_text())
    assert about["backbone"] == {"name": "test_resnet", "size": 64} and about["tools"] == [
        "read_text",
        "detect_objects",
    ]
    assert about["suite"] == ["motion_blur"] and about["channels"] == "relative"
    assert about["config_hash"] in run_folder.name and about["data"]["videos"] == {"train": 2, "dev": 2}
    assert (folder / "outputs/reliability/weights/model.safetensors").read_bytes() == (
        run_folder / "weights" / "model.safetensors"
    ).read_bytes()
    lines = (run_folder / "metrics.csv").read_text().splitlines()
    assert lines[0] == "epoch,train_loss,dev_loss,dev_ramp_error" and len(lines) == 13
    quality = json.loads((run_folder / "reliability_metrics.json").read_text())["dev"]
    assert [row["tool"] for row in quality] == about["tools"] and sum(row["n"] for row in quality) > 20
    run_json = json.loads((run_folder / "run.json").read_text())
    assert run_json["status"] == "finished" and "weights/model.safetensors" in run_json["files"]


def test_the_same_config_gives_the_same_bytes_again(finished):
    folder, run_folder = finished
    before = (run_folder / "weights/model.safetensors").read_bytes()
    again = run(config_of(folder, "fresh=true"))  # tool outputs and views are in the cache
    assert again == run_folder and (again / "weights/model.safetensors").read_bytes() == before
    assert weights_digest(folder / "outputs/reliability/weights") == weights_digest(run_folder / "weights")


def test_a_finished_run_is_not_done_again(finished):
    folder, run_folder = finished
    cases, lines = (run_folder / "cases_train.jsonl").read_bytes(), (run_folder / "metrics.csv").read_bytes()
    run(config_of(folder))
    assert (run_folder / "cases_train.jsonl").read_bytes() == cases and (
        run_folder / "metrics.csv"
    ).read_bytes() == lines


def test_a_profile_tells_blurred_from_clean_frames(finished):
    folder, _ = finished
    videos = sorted((folder / "cache" / "boxworld").rglob("*.mp4"))
    estimator = Learned(max_frames=24, weights=str(folder / "outputs/reliability/weights"))
    clean, touched = [], []
    for video in videos:
        clip = corrupt(open_clip(video), MotionBlur(), 5, 0.5, seed=7)
        profile, measured = estimator.profile(clip), Relative(24).profile(clip)
        assert profile.indices == measured.indices and (profile.ramps == measured.ramps).all()
        assert (profile.disturbance == measured.disturbance).all() and set(profile.raw) == set(measured.raw)
        assert set(profile.yields) == set(TOOLS)
        for values in profile.yields.values():
            assert values.shape == (24,) and values.dtype == np.float64 and ((values > 0) & (values < 1)).all()
        on = clip.touched[list(profile.indices)]
        clean += profile.yields["read_text"][~on].tolist()
        touched += profile.yields["read_text"][on].tolist()
    pairs = np.asarray(clean)[:, None] > np.asarray(touched)[None, :]
    assert pairs.mean() > 0.85, "the network alone (use_ramps=false) must have learnt to see heavy blur"


def test_profiles_repeat_and_do_not_depend_on_how_many_frames_are_profiled(finished):
    folder, _ = finished
    weights = str(folder / "outputs/reliability/weights")
    rng = np.random.default_rng(5)
    clip = ArraySource(rng.integers(0, 256, (20, 48, 64, 3), dtype=np.uint8), fps=10, video_id="noise")
    first, second = Learned(20, weights).profile(clip), Learned(20, weights).profile(clip)
    assert (first.yields["read_text"] == second.yields["read_text"]).all()
    few = Learned(2, weights).profile(clip)
    # Not to the last bit: a batch of another size may sum in another order.
    assert few.yields["read_text"] == pytest.approx(first.yields["read_text"][[0, 19]], abs=1e-5)
    assert View(clip).profile(Learned(1, weights)).indices == (0,)


def test_a_method_takes_it_in_place_of_relative(finished):
    folder, _ = finished
    config = plain_config(compose_config(["methods=[learned]"]))
    node = config["methods"]["learned"]
    node["reliability"]["weights"] = str(folder / "outputs/reliability/weights")
    method = build(node)
    assert method.reliability.load().tools == TOOLS and method.confidence.channels == "relative"


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_missing_weights_say_how_to_train_them_and_what_to_use_instead(tmp_path):
    estimator = Learned(weights=str(tmp_path / "nothing"))
    with pytest.raises(DataError, match=r"python train.py stage=reliability.*reliability=relative"):
        estimator.load()
    with pytest.raises(DataError, match="no trained weights in"):
        estimator.profile(ArraySource(np.zeros((3, 8, 8, 3), np.uint8), fps=10, video_id="black"))
    with pytest.raises(DataError, match="no trained weights in"):
        weights_digest(tmp_path)


def test_weights_that_do_not_belong_to_their_description_are_refused(finished, tmp_path):
    _, run_folder = finished
    shutil.copytree(run_folder / "weights", tmp_path / "w")
    about = tmp_path / "w" / "config.json"
    text = about.read_text()
    about.write_text(text.replace('"test_resnet"', '"test_vit"'))
    with pytest.raises(DataError, match=r"model\.safetensors.*expected the weights"):
        load_artefact(tmp_path / "w")
    about.write_text(text.replace('"view": 1', '"view": 0'))
    with pytest.raises(DataError, match="train the weights anew"):
        load_artefact(tmp_path / "w")
    about.write_text(text[: len(text) // 2])
    with pytest.raises(DataError, match=r"config\.json"):
        load_artefact(tmp_path / "w")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["benchmark.split=test"], "benchmark.split=test: expected train; nothing is learnt from val and test"),
        (["dev.split=test"], "dev.split=test: expected dev"),
        (["cases.coverage=1.0", "fit.epochs=0"], "cases.coverage=1.0"),
        (["cases.coverage=1.0", "fit.epochs=0"], "fit.epochs=0"),
        (["corruption=[]"], "corruption=[]"),
        (["device=tpu"], "device=tpu"),
        (["backbone.size=50"], "backbone.size=50"),
    ],
)
def test_configs_that_cannot_run_are_refused_with_all_their_faults(tmp_path, words, said):
    with pytest.raises(ConfigError) as refused:
        run(config_of(tmp_path, *words))
    assert said in str(refused.value)
    (folder,) = (tmp_path / "outputs" / "reliability").iterdir()  # says why, and nothing was collected
    assert said in json.loads((folder / "run.json").read_text())["error"]
    assert not list(folder.glob("cases_*"))


def test_the_defaults_of_the_stage_are_valid():
    for backbone in ("small", "base", "test"):
        config = plain_config(compose_config(["stage=reliability", f"backbone={backbone}"], "train"))
        assert check(config, ReliabilityConfig).benchmark["split"] == "train"
    with pytest.raises(ValueError, match="max_frames=65"):
        Learned(max_frames=65)
