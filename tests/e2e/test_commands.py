"""``python -m trustvid``: ask and probe, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trustvid.agent.trajectory import Trajectory

CLIPS = Path(__file__).resolve().parents[1] / "data" / "videos"


def test_ask_shows_what_the_answer_rests_on(user, real_clips):
    out = user.trustvid("ask", str(real_clips["bikes"]), "What can be seen, and how does the camera move?").stdout
    for part in (
        "Reliability  ",
        "Selected     ",
        "dominant: ",
        "Sub-query  ",
        "Evidence",
        "c=",
        "Answer     ",
        "Confidence ",
    ):
        assert part in out, out
    assert "bikes.mp4: 250 frames, 10.0 s, 640x272" in out


def test_ask_answers_a_question_with_options_on_a_generated_clip(user, finished):
    clip = next(Path(user.environment["TRUSTVID_CACHE"]).glob("boxworld/*/boxroom/*.mp4"))
    out = user.trustvid(
        "ask",
        str(clip),
        "How does the camera move?",
        "--options",
        "it turns",
        "it flies forward",
        "--method",
        "blind",
        "--json",
    ).stdout
    trajectory = Trajectory.from_json(json.loads(out))
    assert trajectory.answer.value in ("A", "B") and trajectory.evidence[0].tool == "recognize_action"
    assert Trajectory.from_json(json.loads(json.dumps(trajectory.to_json()))) == trajectory


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.mp4", "What?"], "nowhere.mp4"),
        (["{clip}", "What?", "--method", "oracle9"], "known: "),
        (["{clip}", "What?", "--options", "only one"], "expected 2 to 10"),
        (["{clip}", "What?", "--set", "reader=magic"], "auto"),
        (["{clip}", "What?", "--frames", "0"], "frames=0; expected at least 1"),
    ],
)
def test_ask_refuses_with_one_message(user, arguments, message):
    clip = str(next(CLIPS.glob("v06*")))
    result = user.trustvid("ask", *(a.replace("{clip}", clip) for a in arguments), check=False)
    assert result.returncode == 2 and message in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize("name", ["v12", "v13", "v22", "v11"])
def test_ask_on_an_unreadable_file_names_it(user, name):
    clip = next(CLIPS.glob(f"{name}*"))
    result = user.trustvid("ask", str(clip), "What?", check=False)
    assert result.returncode == 2 and clip.name in result.stderr and "expected" in result.stderr


def test_probe_prints_one_json_object_and_writes_frames(user, tmp_path):
    clip = next(CLIPS.glob("v07*"))
    out = json.loads(user.trustvid("probe", str(clip), "--frames", "3", "--dump", str(tmp_path / "f"), "--json").stdout)
    assert (out["width"], out["height"], out["rotation"], len(out["indices"])) == (64, 96, 90, 3)
    assert len(list((tmp_path / "f").glob("frame_*.png"))) == 3


def test_the_command_list_and_an_unknown_command(user):
    listed = user.trustvid("--help").stdout
    assert "ask" in listed and "probe" in listed and "check" in listed
    assert user.trustvid("asc", check=False).returncode == 2
