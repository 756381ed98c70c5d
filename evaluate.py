"""Compare methods on a benchmark, clean and corrupted: ``python evaluate.py [group=option] [key=value]``.

``python evaluate.py --help`` lists the groups; README.md shows runs with their output.
"""

from pathlib import Path

import hydra

from trustvid.config.entry import check_command_line, compact_errors


@hydra.main(version_base="1.3", config_path="conf", config_name="evaluate")
@compact_errors
def main(cfg) -> None:
    from trustvid.stages.evaluate import run

    run(cfg)


if __name__ == "__main__":
    check_command_line(Path(__file__).parent / "conf")
    main()
