"""The page of a run, made of a real small run and opened in a real browser.

pytest tests/unit/test_page.py -q -n 0
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.unit.browser import Browser, find_browser
from trustvid.captioning.report import CaptionView
from trustvid.captioning.report import results_table as caption_table
from trustvid.config.checking import build
from trustvid.errors import ConfigError
from trustvid.evaluation.page import Html
from trustvid.evaluation.page.build import script_json
from trustvid.evaluation.page.frames import Budget, Gallery
from trustvid.evaluation.page.samples import chosen_places, frame_ranges, question_samples
from trustvid.evaluation.page.tables import to_html
from trustvid.evaluation.plots.inputs import RunData
from trustvid.evaluation.report import results_table
from trustvid.evaluation.report_forms import Report
from trustvid.evaluation.runner import under
from trustvid.evaluation.tables import Cell, Header, Table

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("blind", "robust_to", "anchored")
HOSTILE = '</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">'


def evaluate(folder: Path, *words: str) -> Path:
    environment = {**os.environ, "TRUSTVID_CACHE": str(folder / "cache")}
    command = [sys.executable, str(ROOT / "evaluate.py"), *words, "workers=0", "scale=tiny", "report=[]"]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-1500:] + result.stderr[-3000:]
    (run,) = (folder / "outputs" / "evaluate").iterdir()
    config = run / ".hydra" / "config.yaml"  # absolute, so that the tests may stand elsewhere
    config.write_text(config.read_text().replace("outputs: outputs", f"outputs: {folder}/outputs"))
    return run


@pytest.fixture(scope="session")
def questions_run(tmp_path_factory) -> Path:
    """A run of one clip with its conversations."""
    words = ["experiment=embedded/demo", f"methods=[{','.join(METHODS)}]", "corruption=[low_light]", "limit=4"]
    return evaluate(tmp_path_factory.mktemp("questions"), *words, "save_trajectories=true")


@pytest.fixture(scope="session")
def captions_run(tmp_path_factory) -> Path:
    """A run of captions of one clip."""
    return evaluate(tmp_path_factory.mktemp("captions"), "benchmark=boxworld_captions", "benchmark.n_videos=1")


@pytest.fixture(scope="session")
def report(questions_run) -> Report:
    return Report({"results": results_table(RunData(questions_run).metrics)}, "results", [questions_run])


@pytest.fixture(scope="session")
def page(report) -> str:
    return Html().render(report)["report.html"]


@pytest.fixture(scope="session")
def browser(tmp_path_factory) -> Browser:
    find_browser()
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def data_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


# -- parts -------------------------------------------------------------------------------------------------------------


def test_tables_mark_mute_and_escape():
    rows = (("ours <b>", Cell(71.26, 1.9, best=True)), ("blind", Cell(65.0, second=True, note="(n=7)")))
    rows += (("Qwen [1]", Cell(None)),)
    table = Table(
        "A & B", (Header("method"), Header("acc", "n=8")), rows, ("A <note>.",), frozenset({2}), frozenset({2})
    )
    html = to_html(table, "results")
    assert (
        '<th scope="row">ours &lt;b&gt;</th><td class="num"><strong>71.3</strong> <span class="dim">± 1.9</span>'
        in html
    )
    assert '<u>65.0</u> <span class="dim">(n=7)</span>' in html
    assert '<tr class="rule muted"><th scope="row">Qwen [1]</th><td class="num">—</td></tr>' in html
    assert "A &amp; B" in html and "<li>A &lt;note&gt;.</li>" in html and 'id="table-results"' in html
    assert '<th scope="col" class="num">acc <span class="dim">n=8</span></th>' in html


def test_samples_are_chosen_by_their_ids_alone(questions_run):
    found = list(RunData(questions_run).predictions)
    few = chosen_places(found, 3)
    assert few == chosen_places(found[::-1], 3) == chosen_places([p for p in found if p.method == "blind"], 3)
    assert len(set(few)) == 3 and set(few) < set(chosen_places(found, 6))


def test_frames_are_named_in_runs():
    assert frame_ranges([0, 1, 2, 9, 12, 13]) == "0–2, 9, 12–13" and frame_ranges([]) == ""


def test_json_in_a_script_cannot_leave_it():
    text = script_json({"question": HOSTILE + "&<!--"})
    assert not set("<>&") & set(text) and json.loads(text)["question"] == HOSTILE + "&<!--"


def test_settings_are_checked_together():
    with pytest.raises(ConfigError) as caught:
        Html(samples=-1, max_mb=0.1)
    assert len(caught.value.faults) == 2


# -- what is on the page -----------------------------------------------------------------------------------------------


def test_pictures_and_reliability_are_what_the_method_had(page, questions_run):
    run, data = RunData(questions_run), data_of(page)
    entry = next(e for e in data["entries"] if e["condition"] != "clean" and e["video"] == data["entries"][0]["video"])
    answer = next(one for one in entry["answers"] if one["method"] == "anchored")
    story = next(
        one
        for one in run.trajectories()
        if (one["sample_id"], one["method"], one["condition"]) == (entry["id"], "anchored", entry["condition"])
    )
    assert answer["frames"] == story["frames"] == [one["frame"] for one in answer["pictures"]]
    places = [answer["strip"]["frames"].index(frame) for frame in story["frames"]]
    assert [answer["strip"]["reliability"][i] for i in places] == pytest.approx(story["reliability"], abs=6e-4)
    samples = {one.id: one for one in build(run.config["benchmark"]).samples()[0]}
    corruptions = {name: build(node) for name, node in run.config["corruption"].items()}
    clip = under(build(run.config["reader"]).open(samples[entry["id"]].video), entry["condition"], corruptions, 0)
    dark = [one for one in answer["pictures"] if clip.frame_key(one["frame"]) != "clean"]
    shown = Image.open(io.BytesIO(base64.b64decode(data["pictures"][answer["pictures"][0]["picture"]])))
    assert shown.height == 96 and len(dark) < len(answer["pictures"])
    for one in answer["pictures"]:
        picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(data["pictures"][one["picture"]]))), dtype=float)
        assert picture.mean() == pytest.approx(clip.frames([one["frame"]])[0].mean(), abs=3)
    inside = [a <= one["frame"] <= b for one in answer["pictures"] for a, b in entry["corrupted"]]
    assert sum(inside) == len(dark)


def test_an_answer_comes_with_evidence_question_and_truth(page, questions_run):
    data, run = data_of(page), RunData(questions_run)
    samples = {one.id: one for one in build(run.config["benchmark"]).samples()[0]}
    assert len(data["entries"]) == 8 and [e["condition"] for e in data["entries"][:2]] == run.view.conditions
    for entry in data["entries"]:
        assert entry["question"] == samples[entry["id"]].question and entry["truth"] == samples[entry["id"]].answer
        assert [one["method"] for one in entry["answers"]] == list(METHODS)
    answer = next(one for one in data["entries"][0]["answers"] if one["method"] == "robust_to")
    assert {one["tier"] for one in answer["story"]["evidence"]} <= {"high", "medium", "low"}
    assert answer["story"]["reply"] == answer["story"]["messages"][-1]["text"] and answer["source"] == "stated"


def test_equal_runs_give_equal_lists_and_a_page_asks_for_nothing(questions_run, page):
    gallery = Gallery(96, 12, Budget(10**7))
    entries, _ = question_samples(RunData(questions_run), 60, gallery)
    assert json.loads(json.dumps({"entries": entries, "pictures": gallery.pictures})) == data_of(page)
    assert not re.search(r"""(?:src|href|url\()\s*=?\s*["']?https?:""", page) and len(page) < 3e6


def test_a_page_keeps_to_its_size_and_says_so(questions_run):
    gallery = Gallery(96, 12, Budget(40_000))
    entries, notes = question_samples(RunData(questions_run), 60, gallery)
    assert sum(map(len, gallery.pictures)) < 40_000 and any("size limit" in note for note in notes)
    pictures = [one for entry in entries for answer in entry["answers"] for one in answer["pictures"]]
    assert any(one["picture"] is None for one in pictures) and len(entries) == 8


def test_without_conversations_or_videos_the_page_says_what_is_missing(questions_run, tmp_path):
    run = tmp_path / questions_run.name
    shutil.copytree(questions_run, run)
    (run / "trajectories.jsonl").unlink()
    config = run / ".hydra" / "config.yaml"
    text = re.sub(
        r"(?m)^benchmark:\n(?: .*\n)+",
        "benchmark:\n  _target_: trustvid.benchmarks.mcq_jsonl.MCQJsonl\n  file: gone\n",
        config.read_text(),
    )
    config.write_text(text)
    entries, notes = question_samples(RunData(run), 5, Gallery(96, 12, Budget(10**6)))
    assert "save_trajectories=true" in notes[1] and "cannot be read here" in notes[0] and "gone" in notes[0]
    assert all(not entry["question"] and entry["answers"][0]["frames"] for entry in entries)


def test_several_runs_share_a_page_without_samples(report, questions_run):
    page = Html().render(Report(report.tables, "results", [questions_run, questions_run]))["report.html"]
    assert "2 runs" in page and "Samples are listed on the page of a single run" in page and 'id="data"' not in page


# -- in a browser ------------------------------------------------------------------------------------------------------


def choose(browser: Browser, name: str, value: str) -> None:
    browser.run(
        f"(() => {{ const field = document.querySelector('#filters [name={name}]'); field.value = {json.dumps(value)};"
        "field.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def shown(browser: Browser) -> int:
    return browser.run("document.querySelectorAll('#list button').length")


def test_the_page_works_in_a_browser(page, browser, tmp_path):
    path, data = tmp_path / "report.html", data_of(page)
    path.write_text(page, encoding="utf-8")
    browser.errors.clear(), browser.requests.clear()
    browser.open(path)
    assert browser.run("document.querySelectorAll('#table-results tbody tr').length") == 6
    assert browser.run("document.querySelectorAll('.plot svg').length") >= 5
    assert shown(browser) == 8 and browser.run("document.querySelector('#detail').textContent") == ""
    choose(browser, "method", "anchored")
    choose(browser, "verdict", "wrong")
    wrong = [e for e in data["entries"] for a in e["answers"] if (a["method"], a["verdict"]) == ("anchored", "wrong")]
    assert shown(browser) == len(wrong) < 8
    choose(browser, "verdict", "")
    choose(browser, "condition", "clean")
    choose(browser, "task", data["entries"][0]["task"])
    assert shown(browser) == 1 and "1 of 8" in browser.run("document.querySelector('#count').value")
    browser.run("document.querySelector('#list button').click()")
    opened = browser.run("document.querySelector('#detail .answer[open]').innerText")
    assert "anchored" in opened and "Evidence" in opened and "read_text" in opened and "confidence" in opened
    assert browser.run("document.querySelectorAll('#detail .answer[open] img').length") == 8
    assert browser.run("document.querySelectorAll('#detail .answer[open] .pick').length") == 8
    assert browser.run("document.querySelectorAll('.options .truth').length") == 1
    choose(browser, "text", "no such words anywhere")
    assert shown(browser) == 0
    assert browser.errors == [] and [url for url in browser.requests if not url.startswith(("data:", "file:"))] == []


def test_the_list_is_walked_by_keys(page, browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page, encoding="utf-8")
    browser.open(path)
    current = "document.querySelector('#list [aria-current=true]')?.dataset.index ?? null"
    assert browser.run(current) is None
    for key, place in (("j", "0"), ("j", "1"), ("ArrowDown", "2"), ("k", "1")):
        browser.press(key)
        assert browser.run(current) == place, key
    browser.press("/")
    assert browser.run("document.activeElement.name") == "text"
    for key in "jkq":
        browser.press(key)
    assert browser.run("document.activeElement.value") == "jkq" and shown(browser) == 0
    browser.press("Escape")
    assert browser.run("document.activeElement.tagName") == "BODY"


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_and_nothing_runs_over_the_edge(page, browser, tmp_path, dark):
    path = tmp_path / "report.html"
    path.write_text(page, encoding="utf-8")
    browser.open(path, 390, 800, dark)
    browser.run("document.querySelectorAll('#list button')[3].click()")
    assert browser.run("document.documentElement.scrollWidth") == 390
    ratios = browser.run(
        """(() => {
          const light = (text) => { const [r, g, b] = text.match(/[\\d.]+/g).map((v) => v / 255)
            .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
          const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
            if (c !== 'rgba(0, 0, 0, 0)') return c; } };
          return [...document.querySelectorAll('p, td, th, li, span, figcaption, a, button, summary, dt, dd, label, h2, pre')]
            .map((e) => [light(getComputedStyle(e).color), light(ground(e))])
            .map(([a, b]) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
        })()"""
    )
    assert min(ratios) >= 4.5 and len(ratios) > 100  # WCAG 2.2, level AA
    unlabelled = "[...document.querySelectorAll('img, select, input, [role=img], [role=region]')].filter((e) => !(e.alt || e.ariaLabel || e.labels?.length)).length"
    assert browser.run(unlabelled) == 0


def test_text_of_the_data_stays_text(questions_run, report, browser, tmp_path):
    run = tmp_path / questions_run.name
    shutil.copytree(questions_run, run)
    samples, _ = build(RunData(questions_run).config["benchmark"]).samples()
    rows = [
        {
            "id": one.id,
            "video": str(one.video),
            "question": HOSTILE,
            "options": [HOSTILE, "right"],
            "answer": "A",
            "task": one.task,
        }
        for one in samples
    ]
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    config = run / ".hydra" / "config.yaml"
    benchmark = f"benchmark:\n  _target_: trustvid.benchmarks.mcq_jsonl.MCQJsonl\n  file: {tmp_path}/questions.jsonl\n  video_root: /\n"
    config.write_text(re.sub(r"(?m)^benchmark:\n(?: .*\n)+", benchmark, config.read_text()))
    path = run / "trajectories.jsonl"
    path.write_text(path.read_text().replace("How does the camera move", json.dumps(HOSTILE)[1:-1]))
    table = Table(HOSTILE, (Header(HOSTILE),), ((HOSTILE,),), (HOSTILE,))
    page = Html().render(Report({"results": table}, "results", [run]))["report.html"]
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    browser.errors.clear()
    browser.open(tmp_path / "report.html")
    browser.run("document.querySelector('#list button').click()")
    browser.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    text = browser.run("document.querySelector('#detail').textContent")
    assert text.count("window.hacked") >= 4 and HOSTILE in browser.run("document.querySelector('#tables').textContent")
    assert browser.run("typeof window.hacked") == "undefined" and browser.errors == []


def test_a_page_of_captions_lists_every_check(captions_run, browser, tmp_path):
    metrics = RunData(captions_run).metrics
    tables = {"results": caption_table(CaptionView(metrics))}
    page = Html().render(Report(tables, "results", [captions_run]))["report.html"]
    data = data_of(page)
    assert len(data["entries"]) == metrics["context"]["n_instructions"] == 4
    checks = [check for entry in data["entries"] for answer in entry["answers"] for check in answer["checks"]]
    tasks = [json.loads(line)["checklist"] for line in (captions_run / "tasks.jsonl").read_text().splitlines()]
    items = [item for task in tasks for item in task["ruled_based_check"]]
    items += [item for task in tasks for group in task["open_ended_check"] for item in group["check_items"]]
    assert len(checks) == len(items) and {"right", "wrong"} <= {check["verdict"] for check in checks}
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    browser.errors.clear()
    browser.open(tmp_path / "report.html")
    choose(browser, "verdict", "wrong")
    assert shown(browser) == sum(entry["answers"][0]["verdict"] == "wrong" for entry in data["entries"]) > 0
    browser.run("document.querySelector('#list button').click()")
    found = browser.run("document.querySelector('#detail').innerText")
    assert "✗ wrong" in found and "judged by rules_only" in found and browser.errors == []
    assert browser.run("document.querySelectorAll('#detail .checks tbody tr').length") >= 3
