"""The notebooks run from any folder on generated data, and are kept without outputs.

pytest tests/e2e/test_notebooks.py -q -n 0
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
PICTURES = {"01_corruption_gallery": 4, "02_reliability_and_calibration": 3, "03_read_a_run": 1}


def test_every_notebook_is_known():
    assert [path.stem for path in NOTEBOOKS] == sorted(PICTURES)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_kept_without_outputs_and_with_stable_ids(path):
    import nbformat

    book = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(nbformat.from_dict(book))
    cells = book["cells"]
    assert [cell["id"] for cell in cells] == [f"{path.stem[:2]}-{number:02d}" for number in range(1, len(cells) + 1)]
    assert all(cell["metadata"] == {} for cell in cells)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert set(book["metadata"]) == {"kernelspec", "language_info"}
    assert path.read_text(encoding="utf-8") == json.dumps(book, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_uses_public_names_and_no_machine(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"""import _|\b(?:trustvid[\w.]*)\._|["']/\w+/""", text)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_from_any_folder(path, tmp_path, cache_dir, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("TRUSTVID_CACHE", str(cache_dir / "notebooks"))
    book = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(book, kernel_name="python3", timeout=240, resources=place).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    pictures = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == PICTURES[path.stem]
    assert all(len(base64.b64decode(picture)) > 5000 for picture in pictures)
    assert list(tmp_path.iterdir()) == []  # whatever a notebook makes lies in the cache
