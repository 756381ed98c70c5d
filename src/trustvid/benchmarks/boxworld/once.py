"""Making a folder once: whole or not at all, by one process while the others wait."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def ensure_folder(folder: Path, is_complete: Callable[[Path], bool], make: Callable[[Path], None]) -> Path:
    """The folder, made at first use.

    ``make`` fills a folder beside it, which is renamed when it is done. A second caller waits for the first; what a
    killed process leaves behind is removed by the next one.

    Args:
        folder: the final place.
        is_complete: whether a finished folder lies there; may raise when something else does.
        make: creates and fills the folder it is given.
    """
    if is_complete(folder):
        return folder
    from filelock import FileLock

    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{folder.name}.lock"):
        if not is_complete(folder):
            for left_over in sorted(folder.parent.glob(f".{folder.name}.*.part")):
                shutil.rmtree(left_over)
            part = folder.parent / f".{folder.name}.{os.getpid()}.part"
            try:
                make(part)
                part.replace(folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return folder
