"""read_text: proposals, recognition, blank frames.   pytest tests/unit/test_tools_read_text.py -q"""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from trustvid.benchmarks.boxworld.preview import render_clip
from trustvid.errors import ConfigError, TrustvidError
from trustvid.tools.evidence import FrameBatch, SubQuery
from trustvid.tools.ocr import ppocr
from trustvid.tools.read_text import ReadText
from trustvid.tools.vision.plates import find_plates, rectify
from trustvid.tools.vision.scene_text import text_lines

QUERY = SubQuery("what does it say?", "text")
IMAGES = Path(__file__).parents[1] / "data" / "images"


def batch(*frames: np.ndarray) -> FrameBatch:
    return FrameBatch(np.stack(frames), tuple(range(len(frames))), tuple(i / 10 for i in range(len(frames))))


def labels(outputs) -> list[list[str]]:
    return [sorted(seen.label for seen in frame) for frame in outputs]


def background(seed: int = 0, size=(240, 320)) -> np.ndarray:
    """Grey and textured, like a street."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(70, 130, (size[0] // 8 + 1, size[1] // 8 + 1), dtype=np.uint8)
    grey = cv2.resize(coarse, size[::-1], interpolation=cv2.INTER_LINEAR)
    return np.repeat(grey[..., None], 3, axis=2)


def plate(word: str, width: int = 200, height: int = 80) -> np.ndarray:
    picture = Image.new("RGB", (width, height), (242, 242, 238))
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default(size=height * 0.6)
    draw.text((width / 2, height / 2), word, fill=(12, 12, 16), font=font, anchor="mm", stroke_width=1)
    return np.asarray(picture)


def put(frame: np.ndarray, picture: np.ndarray, quad) -> np.ndarray:
    """The picture painted into the quadrilateral (top left, top right, bottom right, bottom left)."""
    height, width = picture.shape[:2]
    source = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    matrix = cv2.getPerspectiveTransform(source, np.array(quad, np.float32))
    warped = cv2.warpPerspective(picture, matrix, frame.shape[1::-1], flags=cv2.INTER_AREA)
    mask = cv2.warpPerspective(np.full((height, width), 255, np.uint8), matrix, frame.shape[1::-1])
    return np.where(mask[..., None] > 127, warped, frame)


def caption(frame: np.ndarray, text: str, size: int = 16) -> np.ndarray:
    picture = Image.fromarray(frame)
    place = (frame.shape[1] * 0.06, frame.shape[0] * 0.85)
    font = ImageFont.load_default(size=size)
    ImageDraw.Draw(picture).text(place, text, (255, 255, 255), font, stroke_width=1, stroke_fill=(0, 0, 0))
    return np.asarray(picture)


@pytest.mark.parametrize(
    "quad",
    [
        [(60, 90), (160, 90), (160, 130), (60, 130)],
        [(60, 80), (150, 95), (150, 132), (60, 140)],
        [(200, 100), (240, 80), (240, 140), (200, 135)],
        [(100, 60), (140, 60), (140, 76), (100, 76)],
    ],
)
def test_plates_are_read_at_any_angle(quad):
    seen = ReadText().observe(batch(put(background(), plate("HOTEL"), quad)), QUERY, ())[0]
    assert [one.label for one in seen] == ["HOTEL"]
    points = np.array(quad)
    expected = [points[:, 0].min() / 320, points[:, 1].min() / 240, points[:, 0].max() / 320, points[:, 1].max() / 240]
    assert seen[0].box == pytest.approx(expected, abs=0.012)
    assert 0.9 < seen[0].score <= 1
    assert (seen[0].kind, seen[0].values) == ("text", {})


def test_case_is_kept_and_no_lexicon_helps():
    frame = put(background(), plate("Qxvb7"), [(60, 90), (170, 90), (170, 134), (60, 134)])
    assert labels(ReadText().observe(batch(frame), QUERY, ("HOTEL",))) == [["Qxvb7"]]


def test_a_word_cut_by_the_border_is_marked():
    frame = put(background(), plate("GARAGE"), [(-40, 90), (70, 90), (70, 134), (-40, 134)])
    seen = ReadText().observe(batch(frame), QUERY, ())[0]
    assert len(seen) == 1
    assert seen[0].label != "GARAGE"
    assert "GARAGE".endswith(seen[0].label[1:])
    assert seen[0].values == {"clipped": 1.0}
    assert seen[0].box[0] == 0.0


def test_frames_without_text_say_so():
    """Nothing found is an empty list and a sentence, never None or an exception."""
    tool = ReadText()
    for name in ("white.png", "black.png", "flat_gray.png"):
        frame = cv2.cvtColor(cv2.imread(str(IMAGES / name)), cv2.COLOR_BGR2RGB)
        assert tool.observe(batch(frame), QUERY, ()) == [[]]
    assert tool.summarise([]) == ("no text found", 0.0)


@pytest.mark.parametrize("mode", ["auto", "proposals", "full"])
@pytest.mark.parametrize("size", [(1, 1), (2, 300), (300, 2), (7, 7), (37, 53), (15, 1000)])
def test_odd_sizes_do_not_crash(mode, size):
    rng = np.random.default_rng(1)
    for frame in (np.zeros((*size, 3), np.uint8), rng.integers(0, 256, (*size, 3), dtype=np.uint8)):
        assert len(ReadText(mode).observe(batch(frame), QUERY, ())) == 1


@pytest.mark.parametrize("mode", ["auto", "proposals", "full"])
def test_captions_on_general_video(mode):
    frame = caption(background(3, (288, 512)), "The quick brown fox, 1984")
    read = labels(ReadText(mode).observe(batch(frame), QUERY, ()))[0]
    assert "Thequickbrownfox,1984" in [line.replace(" ", "") for line in read], "the model may drop narrow spaces"


def test_the_detection_network_runs_only_where_plates_do_not_explain_the_text(monkeypatch):
    calls = []
    find = ppocr.TextDetector.find
    monkeypatch.setattr(ppocr.TextDetector, "find", lambda self, image: calls.append(1) or find(self, image))
    sign = put(background(), plate("HOTEL"), [(60, 90), (160, 90), (160, 130), (60, 130)])
    tool = ReadText()
    assert labels(tool.observe(batch(sign, background()), QUERY, ())) == [["HOTEL"], []]
    assert not calls
    both = labels(tool.observe(batch(sign, caption(sign, "Part two of five")), QUERY, ()))
    assert both == [["HOTEL"], ["HOTEL", "Part two of five"]]
    assert len(calls) == 1


def test_a_frame_is_read_alike_alone_and_in_any_batch():
    words = ["CAFE", "PHARMACY", "TV", "BANK"]
    frames = [
        put(background(i), plate(word), [(40, 80), (60 + 25 * i + 60, 90), (60 + 25 * i + 60, 130), (40, 126)])
        for i, word in enumerate(words)
    ]
    tool = ReadText()
    together = tool.observe(batch(*frames), QUERY, ())
    for i, frame in enumerate(frames):
        alone = tool.observe(batch(frame), QUERY, ())[0]
        assert [(s.label, s.box) for s in alone] == [(s.label, s.box) for s in together[i]]
        assert [s.score for s in alone] == pytest.approx([s.score for s in together[i]], abs=2e-4)


def test_equal_crops_share_a_call(monkeypatch):
    recogniser = ppocr.recogniser(1)
    sizes = []
    session = recogniser._session

    class Counting:
        def run(self, outputs, feed):
            sizes.append(len(next(iter(feed.values()))))
            return session.run(outputs, feed)

    monkeypatch.setattr(recogniser, "_session", Counting())
    readings = recogniser.read([plate("CAFE")] * 5 + [plate("BANK")])
    assert [r.text for r in readings] == ["CAFE"] * 5 + ["BANK"]
    assert sum(sizes) == 2


def test_summary_is_short_and_factual():
    frame = put(background(), plate("HOTEL"), [(60, 90), (160, 90), (160, 130), (60, 130)])
    tool = ReadText()
    seen = [one for outputs in tool.observe(batch(frame, frame), QUERY, ()) for one in outputs]
    result, intrinsic = tool.summarise(seen)
    assert result == f'text: "HOTEL" (in 2 frames, 0.0–0.1 s, score {seen[0].score:.2f})'
    assert intrinsic == pytest.approx(seen[0].score)


def test_walls_windows_and_stripes_are_no_plates():
    stripes = background()
    stripes[100:140] = 235
    for x in range(10, 310, 24):
        stripes[104:136, x : x + 12] = 40  # a row of windows
    facade = put(background(), stripes[95:145], [(20, 60), (300, 60), (300, 140), (20, 140)])
    assert text_lines(facade, ()) == []
    checker = np.kron(np.indices((15, 20)).sum(0) % 2, np.ones((16, 16))).astype(np.uint8) * 255
    assert text_lines(np.repeat(checker[..., None], 3, 2), ()) == []


def test_rectified_crops_are_upright():
    word = plate("MUSEUM")
    frame = put(background(), word, [(60, 80), (150, 100), (150, 140), (60, 150)])
    found = find_plates(frame)
    assert len(found) == 1
    crop = rectify(frame, found[0].quad)
    assert crop.shape[0] == 48
    grey = cv2.resize(cv2.cvtColor(crop, cv2.COLOR_RGB2GRAY), (200, 80))
    assert np.corrcoef(grey.ravel(), cv2.cvtColor(word, cv2.COLOR_RGB2GRAY).ravel())[0, 1] > 0.8


@pytest.mark.parametrize(("kind", "seed"), [("city", 104), ("room", 105)])
def test_boxworld_signs(kind, seed):
    clip = render_clip(kind, seed)
    chosen = range(0, len(clip.frames), 4)
    outputs = ReadText().observe(batch(*clip.frames[::4]), QUERY, ())
    asked = right = 0
    for t, seen in zip(chosen, outputs, strict=True):
        for box in clip.seen[t]:
            x0, _, x1, _ = box.plate or (0, 0, 0, 0)
            if box.plate_pixels >= 500 and x0 > 0.01 and x1 < 0.99 and (x1 - x0) * 320 >= 7 * len(box.word):
                asked += 1
                right += any(one.label == box.word and x0 <= (one.box[0] + one.box[2]) / 2 <= x1 for one in seen)
    assert asked >= 6
    assert right >= 0.85 * asked


def test_wrong_settings_and_missing_models_say_what_to_do(monkeypatch):
    with pytest.raises(ConfigError) as error:
        ReadText(mode="fast", min_score=2, threads=0)
    assert len(error.value.faults) == 3
    monkeypatch.setattr(ppocr.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TrustvidError, match="pip install rapidocr"):
        ppocr.model_path("rec")


def test_settings_tell_modes_apart():
    assert ReadText("full").settings() != ReadText("auto").settings()
    assert ReadText(min_score=0.4).settings() != ReadText().settings()
