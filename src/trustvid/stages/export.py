"""``python -m trustvid export RUN --to lmms_eval|inspect --out DIR``: a run in another harness's per-sample form."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("run", type=Path, help="a run folder, e.g. outputs/evaluate/demo-0123456789")
    parser.add_argument("--to", choices=("lmms_eval", "inspect"), required=True, help="whose form")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for the files; those of equal names are replaced"
    )
    parser.add_argument(
        "--without-questions",
        action="store_true",
        help="leave question and option texts out, for runs whose benchmark is not at hand",
    )


def run(args: argparse.Namespace) -> int:
    """Write the files and say what is in them.

    Raises:
        DataError: no run, no numbers, or the benchmark cannot be read or is another one now.
    """
    from trustvid.evaluation.jsonfiles import replace_file
    from trustvid.evaluation.store import RunFolder
    from trustvid.interop import caption_runs, inspect_log, lmms_eval, question_runs

    folder = RunFolder(args.run)
    folder.existing_run()
    if caption_runs.holds_captions(folder):
        run_, parts = caption_runs.run_of(folder), list(caption_runs.parts_of(folder))
    else:
        run_ = question_runs.run_of(folder)
        questions = None if args.without_questions else question_runs.questions_of(folder)
        parts = list(question_runs.parts_of(folder, questions))
    form = {"lmms_eval": lmms_eval, "inspect": inspect_log}[args.to]
    written = 0
    for name, text in form.files(run_, parts):
        path = args.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
        written += 1
    samples = sum(len(part.items) for part in parts)
    unscored = samples - sum(part.scored for part in parts)
    print(f"{args.out}: {written} files, {samples} samples, {unscored} of them unscored")
    return 0
