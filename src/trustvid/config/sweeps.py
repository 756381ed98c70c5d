"""What a sweep (``-m``) needs beyond Hydra: a folder of its own name, a record of each job, one result at its end.

Hydra stops at the first job that failed and keeps nothing of the others. :class:`SweepCallback` (conf/hydra/callbacks)
writes down how every job went, lets the others run, and ends with the numbers of all of them in one file and an exit
code that says whether one failed. Jobs that run elsewhere (joblib, SLURM) leave their records in the sweep's folder.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode

from trustvid.errors import ConfigError, TrustvidError
from trustvid.evaluation.jsonfiles import dump_json, read_json, replace_file
from trustvid.evaluation.provenance import NOT_HASHED

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn
    from omegaconf import DictConfig

JOB_FILE, PREVIOUS_FILE, ERROR_FILE = "job.json", "previous.json", "error.txt"


def in_sweep() -> bool:
    """Whether this process is at a job of a sweep."""
    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN


def may_skip() -> bool:
    """Whether this job is one of a sweep and did not fail in the sweep's last try, after its answers maybe."""
    record = _own_record()
    return in_sweep() and not (record and read_json(record)["again"])


def tell_sweep(folder: Path, already: bool = False) -> None:
    """Note in the record of this job, if it is one of a sweep, where its run lies.

    Args:
        folder: the run folder.
        already: the run had finished before, and nothing is done.
    """
    record = _own_record()
    if record:
        _update_job(record.parent, folder=str(folder), already=already)


def _own_record() -> Path | None:
    """This job's record; None outside of sweeps, and in one that the callback does not watch (a config without it)."""
    path = Path(HydraConfig.get().runtime.output_dir) / JOB_FILE if in_sweep() else None
    return path if path and path.is_file() else None


def sweep_hash(words: Sequence[str], params: Mapping[str, Any], root: str) -> str:
    """Ten hex digits that name a sweep: equal jobs, equal digits, in any order of the words.

    Args:
        words: of the command line, e.g. ``["severity=1,2", "workers=2"]``; what changes no answer (workers, paths,
            report, …) does not count.
        params: the sweeper's own, e.g. ``{"severity": "range(1,6)"}``.
        root: name of the entry point's config, "evaluate" or "train".

    >>> sweep_hash(["severity=1,2", "workers=2"], {}, "evaluate") == sweep_hash(["severity=1,2"], {}, "evaluate")
    True
    """
    counted = sorted(word for word in words if not _changes_nothing(word))
    text = json.dumps([root, counted, {key: str(value) for key, value in params.items()}], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _changes_nothing(word: str) -> bool:
    key = word.partition("=")[0].lstrip("+~")
    parents = [key[: match.start()] for match in re.finditer(r"\.", key)]
    return any(fnmatchcase(name, pattern) for name in (key, *parents) for pattern in NOT_HASHED)


class SweepCallback(Callback):
    """Watches over a sweep's jobs; of a run without ``-m`` it only says when ``sweep=…`` has no effect.

    Args:
        objective: for sweepers that search (Optuna): which of a job's numbers they get, as
            ``{method: anchored, condition: corrupted mean, task: macro, metric: accuracy}``; the first row of runs.csv
            with these values. None = no number.
    """

    def __init__(self, objective: Mapping[str, Any] | None = None):
        self.objective = None if objective is None else {str(key): objective[key] for key in objective}
        self.launcher: str | None = None  # of the sweep, to compare with what a job's own config names

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Without -m: a sweep was named in vain."""
        choice = config.hydra.runtime.choices.get("sweep")
        if choice or _sweeper_params(config):
            name = choice or "[…]"
            print(
                f"sweep={name} needs -m: python {config.hydra.job.name}.py -m sweep={name} …; this is one run, with "
                "the values as they are",
                file=sys.stderr,
            )

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Give the sweep its folder, and set the records of an earlier try aside."""
        choice = config.hydra.runtime.choices.get("sweep")
        self.launcher = config.hydra.launcher.get("_target_")
        logging.getLogger("hydra._internal.core_plugins").setLevel(logging.WARNING)  # on_job_start names the jobs
        if any(re.fullmatch(r"\+{0,2}sweep=[^\[\]]*,.*", word) for word in config.hydra.overrides.task):
            sys.exit("sweep=a,b would run each sweep's values as they are; write sweep=[a,b] to cross both")
        folder = _name_folder(config, str(kwargs.get("config_name") or config.hydra.job.name))
        for path in folder.glob(f"*/{JOB_FILE}"):
            path.replace(path.with_name(PREVIOUS_FILE))
        print(f"sweep {choice} in {folder}" if choice else f"sweep in {folder}")
        atexit.register(_collect_broken, folder, os.getpid())

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Open the job's record, with its words where every tool for Hydra looks for them."""
        from omegaconf import OmegaConf

        if config.hydra.mode != RunMode.MULTIRUN:
            return
        folder, words = Path(config.hydra.runtime.output_dir), list(config.hydra.overrides.task)
        (folder / ERROR_FILE).unlink(missing_ok=True)
        record = {"overrides": words, "status": "running", "folder": None, "reason": None}
        record |= {"already": False, "again": _unfinished_before(folder / PREVIOUS_FILE, words)}
        replace_file(folder / JOB_FILE, dump_json(record))
        (folder / ".hydra").mkdir(exist_ok=True)
        replace_file(folder / ".hydra" / "overrides.yaml", OmegaConf.to_yaml(OmegaConf.create(words)))
        print(f"\njob {config.hydra.job.num}: {' '.join(words)}", flush=True)
        own = config.hydra.launcher.get("_target_")
        if self.launcher and own != self.launcher:
            print(
                f"job {config.hydra.job.num}: its config names the launcher {own}, in vain: a sweep's launcher is "
                "chosen before its jobs are. Name it on the command line: hydra/launcher=…",
                file=sys.stderr,
            )

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Close the job's record. A failure is written down and does not reach the sweeper, which would stop at it."""
        from hydra.core.utils import JobStatus

        if config.hydra.mode != RunMode.MULTIRUN:
            return
        folder = Path(config.hydra.runtime.output_dir)
        if job_return.status == JobStatus.FAILED:
            reason = _write_error(folder, job_return._return_value)
            _update_job(folder, status="failed", reason=reason)
            print(f"job {config.hydra.job.num} failed: {reason}", file=sys.stderr)
            job_return.return_value = None
            job_return.status = JobStatus.COMPLETED
            return
        already = read_json(folder / JOB_FILE)["already"]
        _update_job(folder, status="skipped" if already else "finished")
        job_return.return_value = self._objective_of(folder)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Collect the jobs' numbers, print the list of jobs and the table; exit with 1 where a job failed."""
        atexit.unregister(_collect_broken)
        try:
            complete = _collect(Path(config.hydra.sweep.dir))
        except Exception as error:  # Hydra would turn it into a warning and exit with 0
            if not isinstance(error, TrustvidError):
                traceback.print_exc()
            sys.exit(f"the sweep's numbers could not be collected: {error}")
        if not complete:
            sys.exit(1)

    def _objective_of(self, job: Path) -> float | None:
        if self.objective is None:
            return None
        from trustvid.evaluation.collect import read_job, tidy

        rows = tidy([read_job(job)])
        wanted = (row["value"] for row in rows if all(row.get(key) == value for key, value in self.objective.items()))
        found = next(wanted, None)
        if found is None:
            print(f"{job}: no number {self.objective} for the sweeper; runs.csv lists what there is", file=sys.stderr)
        return found


# -- the sweep's folder ------------------------------------------------------------------------------------------------


def _name_folder(config: DictConfig, root: str) -> Path:
    """hydra.sweep.dir + <name>-<hash>, for this process and for the jobs, which compose their config anew; a folder
    that the user named stays as it is."""
    from omegaconf import open_dict, read_write

    named = any(word.lstrip("+").startswith("hydra.sweep.dir=") for word in config.hydra.overrides.hydra)
    folder = Path(config.hydra.sweep.dir)
    if not named:
        digest = sweep_hash(list(config.hydra.overrides.task), _sweeper_params(config), root)
        name = re.sub(r"[^\w.+-]", "_", _name_of(config))
        folder = folder / f"{name}-{digest}"
        quoted = str(folder).replace("\\", "\\\\").replace("'", "\\'")
        with read_write(config), open_dict(config):
            config.hydra.sweep.dir = str(folder)
            config.hydra.overrides.hydra.append(f"hydra.sweep.dir='{quoted}'")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _name_of(config: DictConfig) -> str:
    """The run's name; "sweep" where it depends on what is swept."""
    from omegaconf.errors import OmegaConfBaseException

    try:
        return str(config.get("name") or "sweep")
    except OmegaConfBaseException:
        return "sweep"


def _sweeper_params(config: DictConfig) -> dict[str, Any]:
    from omegaconf import OmegaConf

    params = config.hydra.sweeper.get("params")
    return {} if params is None else dict(OmegaConf.to_container(params, resolve=True))


def _unfinished_before(path: Path, words: Sequence[str]) -> bool:
    previous = read_json(path) if path.is_file() else {}
    return previous.get("status") in ("failed", "running") and previous["overrides"] == list(words)


def _update_job(job: Path, **changes: Any) -> None:
    path = job / JOB_FILE
    replace_file(path, dump_json({**read_json(path), **changes}))


def _write_error(folder: Path, error: BaseException) -> str:
    """Write ``error.txt``, with the traceback where the error is none of our own; returns what went wrong."""
    cause = error.__cause__ if isinstance(error.__cause__, TrustvidError) else error
    if isinstance(cause, TrustvidError):
        text = reason = str(cause)
    else:
        text, reason = "".join(traceback.format_exception(error)), f"{type(error).__name__}: {error}"
    replace_file(folder / ERROR_FILE, f"{text.rstrip()}\n")
    if isinstance(cause, ConfigError):
        reason = "; ".join(cause.faults)
    return reason


# -- its end -----------------------------------------------------------------------------------------------------------


def _collect(folder: Path) -> bool:
    """Write what all jobs gave together and print it; whether every job has finished."""
    from trustvid.evaluation.collect import collect

    return collect(folder)


def _collect_broken(folder: Path, process: int) -> None:
    """A sweep that was broken off (Ctrl-C, a launcher that gave up) still says what it has."""
    if os.getpid() == process and any(folder.glob(f"*/{JOB_FILE}")):
        try:
            _collect(folder)
        except TrustvidError as error:
            print(error, file=sys.stderr)
