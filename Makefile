# Two verbs, no set-up: each makes .venv and installs what is missing, and may be repeated.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test

# The main job: about 80 questions on generated clips, clean and under five corruptions, as one table.
demo: .venv/installed
	$(BIN)/python evaluate.py experiment=embedded/demo

test: .venv/installed
	$(BIN)/python -m pytest

.venv/installed: requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements.txt
	# ByteTrack. It lists opencv-python, which would write over opencv-python-headless; all else it needs is there.
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps "trackers>=2.6,<2.7"
	@touch $@
