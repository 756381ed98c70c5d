"""Published numbers of IF-VidCap: values spot-checked against the paper, what is doubtful said, and put beside ours.

pytest tests/unit/test_caption_published.py -q -n 0
"""

from __future__ import annotations

import pytest

from trustvid.captioning.taxonomy import FIGURE_GROUPS
from trustvid.evaluation.published_tables import load_published


def rows(name: str) -> dict:
    return {row.method: row for row in load_published(f"if_vidcap/{name}").rows}


def test_table_2_is_as_printed():
    found = rows("table2")
    assert len(found) == 27 and list(found)[:3] == ["Gemini-2.5-Pro", "Gemini-2.5-Flash", "GPT-4o"]
    assert list(found["Gemini-2.5-Pro"].values.values()) == [27.83, 74.53, 74.35, 87.81, 35.22, 59.0]
    assert list(found["InternVL-3.5-8B"].values.values()) == [9.96, 56.45, 48.14, 71.68, 16.98, 38.65]
    assert list(found["Qwen2.5-VL-7B"].values.values()) == [10.92, 58.12, 52.51, 73.81, 18.75, 39.65]
    assert list(found["Tarsier2-7B"].values.values()) == [1.4, 26.05, 9.3, 27.75, 9.91, 24.04]
    assert list(found["IF-Captioner-Qwen-7B"].values.values()) == [12.76, 61.64, 58.5, 78.81, 19.65, 41.56]
    assert found["Human"].values["ISR"] == 31.89 and found["Human"].values["rule CSR"] is None
    assert found["Qwen2.5-VL-7B"].frames == "2 fps" and found["Video-LLaVA-7B"].frames == "8"


def test_pooled_numbers_of_table_2_are_one_mixture_of_their_families():
    """Only a pooled CSR lies at one place between rule and open CSR in every row: any misread digit shows here."""
    for method, row in rows("table2").items():
        values = row.values
        if values["rule CSR"] is not None:
            share = (values["CSR"] - values["open CSR"]) / (values["rule CSR"] - values["open CSR"])
            assert share == pytest.approx(0.539, abs=0.006), method


def possible(percent: float, total: int = 1400) -> bool:
    near = round(percent * total / 100)
    return any(abs(100 * k / total - percent) < 0.0051 for k in (near - 1, near, near + 1))


def test_every_isr_that_is_no_share_of_1400_is_doubted_and_no_other():
    for method, row in rows("table2").items():
        doubted = "count" in row.cell_doubts.get("ISR", ())
        assert doubted != possible(row.values["ISR"]), method
    assert sum("count" in row.cell_doubts.get("ISR", ()) for row in rows("table2").values()) == 20


def test_doubts_of_single_rows_are_there():
    found = rows("table2")
    assert (
        "label" in found["Qwen3-VL-235B-A22B-Instruct"].doubts and "site" in found["Qwen2.5-VL-7B"].cell_doubts["ISR"]
    )
    assert found["Llama-3.2-Vision-11B"].doubts == ("first",) and found["Tarsier2-7B"].doubts == ("colour",)
    assert "camera" in found["IF-Captioner-Qwen-7B (camera-ready)"].doubts
    table = load_published("if_vidcap/table2")
    assert "1.92" in table.doubts["site"] and "macro" not in " ".join(table.doubts.values())


def test_table_3_and_fig_5():
    found = rows("table3")
    assert list(found["GPT-5-mini"].values.values()) == [96.33, 96.90, 96.08] and len(found) == 3
    bars = load_published("if_vidcap/fig5")
    assert bars.columns == FIGURE_GROUPS and len(bars.rows) == 16
    found = rows("fig5")
    assert found["Gemini-2.5-Pro"].values["Length"] == 81.9 and found["ARC-Hunyuan-Video-7B"].values["JSON"] == 0.0
    assert found["Tarsier2-7B"].values["Inference"] == 47.4 and found["GPT-4o"].values["Language"] == 87.5
    assert any("questions, not groups" in note for note in bars.notes)


def test_the_set_beside_its_peers():
    found = rows("statistics")
    assert found["IF-VidCap"].values == {
        "instructions": 1400, "types": 27, "constraints": 6.0, "seconds": 20.5, "questions": 16.95
    }  # fmt: skip
    assert found["IFEval"].values["constraints"] == 1.54 and found["VidCapBench"].values["questions"] == 16.55


def test_every_row_stands_in_the_reference_text_as_it_is(shared_dir):
    text = (shared_dir / "facts" / "if_vidcap.md").read_text(encoding="utf-8")
    for row in load_published("if_vidcap/table2").rows:
        if None not in row.values.values():
            words = "{:.2f} {:.2f} | {:.2f} {:.2f} | {:.2f} {:.2f}".format(*row.values.values())
            assert words in text, row.method
    for row in load_published("if_vidcap/fig5").rows:
        words = [f"{value:.1f}" for value in row.values.values()]
        assert f"{' '.join(words[:12])} | {' '.join(words[12:])}" in text, row.method
