"""``python -m trustvid COMMAND``: the small tools, with ordinary arguments (questions contain commas and quotes)."""

from __future__ import annotations

import argparse
import importlib
import sys

from trustvid.errors import TrustvidError

# Command → (module with add_arguments(parser) and run(args) → exit code, one line of help). Imported when chosen.
COMMANDS = {
    "ask": ("trustvid.stages.ask", "answer a question about a video, with the evidence and how sure the answer is"),
    "probe": ("trustvid.video.probe", "what a video file really holds: frames, times, size, and which reader reads it"),
    "table": ("trustvid.stages.table", "several run folders, of a sweep say, as one table"),
    "export": ("trustvid.stages.export", "a run in the per-sample form of lmms-eval or inspect_ai"),
    "import": (
        "trustvid.stages.import_predictions",
        "predictions of VLMEvalKit or lmms-eval as a run, to be tabled beside ours",
    ),
    "gallery": ("trustvid.stages.gallery", "what each corruption does to a frame of a video, as one labelled picture"),
    "profile": ("trustvid.stages.profile", "which frames of a video can be relied on, and which would be chosen"),
    "mstar": ("trustvid.stages.mstar", "how many sub-queries a question needs, as the reward of training counts them"),
    "check": ("trustvid.captioning.check_cli", "whether caption parts meet format constraints, one JSON object a line"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code is 0, or 2 for input that cannot be used."""
    arguments = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="python -m trustvid", description="Video understanding you can trust.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = arguments[0] if arguments and arguments[0] in COMMANDS else None
    for name, (module, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if name == chosen:
            importlib.import_module(module).add_arguments(command)
    parsed = parser.parse_args(arguments)
    try:
        return importlib.import_module(COMMANDS[parsed.command][0]).run(parsed)
    except TrustvidError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
