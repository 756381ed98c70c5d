"""Train one part of the system: ``python train.py stage=reliability|sft|grpo [group=option] [key=value]``.

Each stage has settings of its own (``python train.py stage=sft --cfg job``); README.md shows runs with their output.
"""

from pathlib import Path

import hydra

from trustvid.config.entry import check_command_line, compact_errors


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
@compact_errors
def main(cfg) -> None:
    from trustvid.stages.training import run

    run(cfg)


if __name__ == "__main__":
    check_command_line(Path(__file__).parent / "conf")
    main()
