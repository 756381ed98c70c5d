"""Questions of a benchmark as examples: with their bare answers, or with the best passes of an earlier run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustvid.config.checking import build
from trustvid.errors import DataError, TrustvidError
from trustvid.policy.base import Message
from trustvid.training.conversations import Conversation
from trustvid.training.data.base import Clips, Conditioned, Examples, Item, examples_of, held_out_fault, refuse

if TYPE_CHECKING:
    from trustvid.agent.pipeline import Pipeline
    from trustvid.benchmarks.sample import Sample

READS = ("benchmark", "prompts", "reader", "methods", "tools")


class Answers:
    """Question and frames → the bare answer: the paper's supervised baseline. Wants ``methods=[direct]``.

    Args:
        reply: what is learned; ``{answer}`` stands for the letter or number.
        held_out: share of the videos that is measured on and not learned.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    reads = READS

    def __init__(self, reply: str = "<answer>{answer}</answer>", held_out: float = 0.05):
        self.reply, self.held_out = reply, held_out
        faults = held_out_fault(held_out)
        if "{answer}" not in reply:
            faults.append(f"data.reply={reply!r}; expected a text with {{answer}} in it")
        refuse(faults)

    def load(self, config: Mapping[str, Any]) -> Examples:
        """Every question with its right answer; those whose video cannot be read are left out.

        Raises:
            DataError: the benchmark cannot be read, or nothing is left.
        """
        from trustvid.agent.driving import drive_with
        from trustvid.agent.method import View

        pipeline, samples, clips = pipeline_of(config), samples_of(config), Clips(config)
        items, left_out = [], []
        for sample in samples:
            reply = self.reply.replace("{answer}", sample.answer)
            try:
                view = View(clips.open(str(sample.video), None))
                turns = pipeline.run(question_of(sample), view)
                (outcome,) = drive_with([turns], lambda places, _, reply=reply: [reply] * len(places))
            except TrustvidError as error:
                outcome = error
            if isinstance(outcome, TrustvidError):
                left_out.append(f"{sample.id}: {outcome}")
            else:
                conversation = Conversation(sample.id, outcome.messages, clips.opener(sample.video))
                items.append(Item(conversation, str(sample.video)))
        return examples_of(items, self.held_out, config["seed"], left_out)


class Rollouts:
    """Rejection sampling: the best passes of a GRPO run (or of a run that only sampled) as examples.

    Args:
        file: the run's ``rollouts.jsonl``.
        per_question: most passes of one question that are kept, those of the highest reward first.
        only_correct: leave out passes whose answer is wrong.
        held_out: share of the videos that is measured on and not learned.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    reads = ("benchmark", "reader", "corruption")

    def __init__(self, file: str | None, per_question: int = 1, only_correct: bool = True, held_out: float = 0.0):
        self.file, self.per_question, self.only_correct, self.held_out = file, per_question, only_correct, held_out
        faults = held_out_fault(held_out)
        if file is None:
            faults.append("data.file is not set; expected the rollouts.jsonl of a run")
        if per_question < 1:
            faults.append(f"data.per_question={per_question}; expected at least 1")
        refuse(faults)

    def load(self, config: Mapping[str, Any]) -> Examples:
        """The best passes of each question, in the order of the questions.

        Raises:
            DataError: the file cannot be read, is of other questions, or nothing in it is good enough.
        """
        from trustvid.evaluation.jsonfiles import read_lines

        path = Path(str(self.file)).expanduser()
        if not path.is_file():
            raise DataError(f"{path}: no such file; expected the rollouts.jsonl of a run of stage=grpo")
        samples = {sample.id: sample for sample in samples_of({**config, "limit": None})}
        clips, best, left_out = Clips(config), dict[str, list[dict[str, Any]]](), []
        for number, line in read_lines(path)[0]:
            where = f"{path.name}:{number}"
            fault = self._fault(line, samples)
            if fault:
                left_out.append(f"{where}: {fault}")
            else:
                best.setdefault(line["record"]["sample_id"], []).append(line)
        items = []
        for sample_id, lines in best.items():
            ranked = sorted(lines, key=lambda line: (-line["reward"], line["step"], line["sample"]))
            for line in _unlike(ranked)[: self.per_question]:
                items.append(_rollout_item(line, samples[sample_id], clips))
        return examples_of(items, self.held_out, config["seed"], left_out)

    def _fault(self, line: Mapping[str, Any], samples: Mapping[str, Sample]) -> str | None:
        if not line.get("messages") or line.get("reward") is None or not isinstance(line.get("record"), Mapping):
            return "the pass failed"
        if self.only_correct and line.get("correct") != 1:
            return "the answer is wrong"
        sample_id = line["record"].get("sample_id")
        return None if sample_id in samples else f"there is no question {sample_id!r} in the benchmark of this config"


def question_of(sample: Sample) -> Any:
    """A sample as the pipeline is asked it."""
    from trustvid.agent.method import Question

    return Question(sample.question, sample.options, numeric=sample.kind == "numeric")


def named(condition: Conditioned | None) -> str:
    """ "clean" or "glare-s3-c0.5", as rollouts write it."""
    return "clean" if condition is None else "{}-s{}-c{:g}".format(*condition)


def condition_of(name: str) -> Conditioned | None:
    """Inverse of :func:`named`.

    Raises:
        DataError: it is no condition.
    """
    if name == "clean":
        return None
    match = re.fullmatch(r"(?P<name>\w+)-s(?P<severity>[1-5])-c(?P<coverage>[\d.]+)", name)
    if match is None:
        raise DataError(f"{name!r} is no condition; expected 'clean' or '<corruption>-s<severity>-c<coverage>'")
    return match["name"], int(match["severity"]), float(match["coverage"])


def _rollout_item(line: Mapping[str, Any], sample: Sample, clips: Clips) -> Item:
    condition = condition_of(line["record"]["condition"])
    if condition is not None and condition[0] not in clips.corruptions:
        raise DataError(
            f"the rollouts met the corruption {condition[0]}; known here: {', '.join(clips.corruptions)} (corruption=…)"
        )
    messages = tuple(Message(m["role"], m["text"], tuple(m["frames"])) for m in line["messages"])
    key = f"{sample.id} {named(condition)} {line['step']}/{line['sample']}"
    return Item(Conversation(key, messages, clips.opener(sample.video, condition)), str(sample.video))


def _unlike(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Without those in which the same was said."""
    said: dict[tuple, Mapping[str, Any]] = {}
    for line in lines:
        said.setdefault(tuple(message["text"] for message in line["messages"]), line)
    return list(said.values())


def samples_of(config: Mapping[str, Any]) -> list[Sample]:
    """The questions of the config's benchmark, as many as ``limit`` says.

    Raises:
        DataError: they cannot be read.
    """
    from trustvid.benchmarks.splits import choose

    samples, _ = build(config["benchmark"]).samples()
    return choose(samples, config.get("limit"), config["seed"])


def pipeline_of(config: Mapping[str, Any]) -> Pipeline:
    """The pipeline of the config's one method."""
    from trustvid.agent.assembly import build_pipelines

    (pipeline,) = build_pipelines(config, Path(config["paths"]["cache"]) / "tools").values()
    return pipeline
