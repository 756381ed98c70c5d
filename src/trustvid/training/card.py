"""The README.md of trained weights: what they are, what they were made of, how they are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Card:
    """What a model card says.

    Attributes:
        title: name of the run.
        stage: "sft" or "grpo".
        kind: "lora" (an adapter) or "full" (all weights).
        base: model that training began with, as ``from_pretrained`` takes it.
        revision: commit or tag of the base; None = none was stated.
        init_from: what the base was changed by before this training; None = nothing.
        config_hash: of the run.
        commit: of the source, None where it is not known.
        steps: optimiser steps.
        data: digest of every data set, by name.
        metrics: last values, by name.
        overrides: words of the command line.
    """

    title: str
    stage: str
    kind: str
    base: str
    revision: str | None
    init_from: str | None
    config_hash: str
    commit: str | None
    steps: int
    data: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()

    def text(self) -> str:
        """The file's text: a YAML head as model hubs read it, then Markdown."""
        adapter = self.kind == "lora"
        began = f"`{self.base}`" + (f" at `{self.revision}`" if self.revision else "")
        if self.init_from:
            began += f", changed by `{self.init_from}`"
        command = " ".join(["python train.py", *self.overrides])
        facts = [
            ("Weights", "a PEFT adapter (LoRA)" if adapter else "a whole model"),
            ("Began with", began),
            ("Stage", f"{self.stage}, {self.steps} optimiser steps"),
            ("Config hash", f"`{self.config_hash}`"),
            ("Source", f"`{self.commit}`" if self.commit else "not a checkout"),
            ("Command", f"`{command}`"),
            *((f"Data {name}", f"sha256 `{digest}`") for name, digest in self.data.items()),
            *((name, f"{value:.6g}") for name, value in sorted(self.metrics.items())),
        ]
        return "\n".join(
            [
                "---",
                f"base_model: {self.base}",
                f"library_name: {'peft' if adapter else 'transformers'}",
                "pipeline_tag: video-text-to-text",
                f"tags: [video, trustvid, {self.stage}]",
                "---",
                f"# {self.title}",
                "",
                "Trained with trustvid.",
                "",
                "| | |",
                "| --- | --- |",
                *(f"| {name} | {value} |" for name, value in facts),
                "",
                "## Loading",
                "```python",
                *self._loading(),
                "```",
                "",
                "## License",
                "The weights that training began with have a licence of their own, which holds for these as well; so "
                "have the videos and texts they learned from.",
                "",
            ]
        )

    def _loading(self) -> list[str]:
        revision = f', revision="{self.revision}"' if self.revision else ""
        if self.kind == "full":
            return [
                "from transformers import AutoModelForImageTextToText, AutoProcessor",
                'model = AutoModelForImageTextToText.from_pretrained("policy")  # this folder',
                'processor = AutoProcessor.from_pretrained("policy")',
            ]
        return [
            "from peft import PeftModel",
            "from transformers import AutoModelForImageTextToText, AutoProcessor",
            f'base = AutoModelForImageTextToText.from_pretrained("{self.base}"{revision})',
            'model = PeftModel.from_pretrained(base, "policy")  # this folder',
            'processor = AutoProcessor.from_pretrained("policy")',
        ]
