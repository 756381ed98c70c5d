"""Which weights of a policy are trained, what it was before training (the reference), and how it is stored.

Config group ``adapter``. Cheap to import and to build.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustvid.errors import ConfigError, TrustvidError

if TYPE_CHECKING:
    import torch

    from trustvid.policy.vlm_model import VisionLanguageModel

_TRAINED, _REFERENCE = "default", "reference"
# The linear layers of the language model in every family; those of the vision tower are called alike, elsewhere.
LANGUAGE_LAYERS = r".*(language_model|text_model).*\.(q|k|v|o|gate|up|down)_proj"


class Full:
    """The weights themselves are trained, all or some of them.

    Args:
        freeze: regular expressions; parameters whose name one of them is found in stay as they are. Embeddings are
            ``embed_tokens`` (and the head where it is tied to them), the vision tower is ``visual|vision``.

    Raises:
        ConfigError: an expression is none.
    """

    name = "full"

    def __init__(self, freeze: Sequence[str] = ()):
        self.freeze = tuple(freeze)
        faults = []
        for pattern in self.freeze:
            try:
                re.compile(pattern)
            except re.error as error:
                faults.append(f"adapter.freeze holds {pattern!r}: {error}; expected a regular expression")
        if faults:
            raise ConfigError(faults)

    def attach(self, model: VisionLanguageModel) -> Trainable:
        """The model made trainable, in place. Adapters it carries are merged into its weights."""
        network = model.network if model.peft is None else model.peft.merge_and_unload()
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(not any(re.search(pattern, name) for pattern in self.freeze))
        _refuse_frozen(network)
        return _FullTrainable(network, model.processor)


class Lora:
    """Low-rank updates of linear layers are trained (Hu et al. 2021), the weights stay as they are.

    A policy that starts from an adapter (``init_from``) goes on with it: rank and layers are then the adapter's own.

    Args:
        r: rank.
        alpha: the update counts alpha / r.
        dropout: share of the inputs of an update that is dropped while training.
        target_modules: regular expression of layers; by default the linear layers of the language model.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    name = "lora"

    def __init__(self, r: int = 16, alpha: float = 32, dropout: float = 0.0, target_modules: str = LANGUAGE_LAYERS):
        self.settings = {"r": r, "lora_alpha": alpha, "lora_dropout": dropout, "target_modules": target_modules}
        faults = [f"adapter.r={r}; expected 1 or more"] if r < 1 else []
        if not alpha > 0:
            faults.append(f"adapter.alpha={alpha}; expected more than 0")
        if not 0 <= dropout < 1:
            faults.append(f"adapter.dropout={dropout}; expected a share from 0, below 1")
        if faults:
            raise ConfigError(faults)

    def attach(self, model: VisionLanguageModel) -> Trainable:
        """The model with an adapter to be trained; one that it carries already is kept beside it as the reference."""
        from peft import LoraConfig, get_peft_model
        from peft.utils import get_peft_model_state_dict, set_peft_model_state_dict

        if model.peft is None:
            model.network.requires_grad_(False)
            try:
                peft = get_peft_model(model.network, LoraConfig(task_type="CAUSAL_LM", **self.settings))
            except ValueError as error:
                raise TrustvidError(f"adapter=lora: {error}; expected layers in adapter.target_modules") from error
            return _LoraTrainable(peft, model.processor, reference=None)
        peft = model.peft
        peft.add_adapter(_REFERENCE, peft.peft_config[_TRAINED])
        set_peft_model_state_dict(peft, get_peft_model_state_dict(peft, adapter_name=_TRAINED), _REFERENCE)
        peft.set_adapter(_TRAINED)
        return _LoraTrainable(peft, model.processor, reference=_REFERENCE)


class Trainable(ABC):
    """A policy's network in training.

    Attributes:
        network: the transformers model that is run, adapters in their places.
        reference_is: what :meth:`reference` brings back, in words.
    """

    kind: str
    reference_is: str

    def __init__(self, network: Any, processor: Any):
        self.network, self.processor = network, processor

    def trained(self) -> dict[str, torch.nn.Parameter]:
        """The parameters that are trained, by their names in ``network``."""
        return {name: value for name, value in self.network.named_parameters() if value.requires_grad}

    def forget_reference(self) -> None:  # noqa: B027 — an adapter has nothing to free
        """Free what only :meth:`reference` needs."""

    @abstractmethod
    def reference(self) -> AbstractContextManager[None]:
        """Inside, ``network`` is what it was before training."""

    @abstractmethod
    def export(self, folder: Path) -> None:
        """Write what plain transformers and peft load: an adapter's folder, or that of a whole model."""


class _FullTrainable(Trainable):
    kind, reference_is = "full", "the weights that training began with"

    def __init__(self, network: Any, processor: Any):
        super().__init__(network, processor)
        self._before: dict[str, torch.Tensor] | None = {k: v.detach().clone() for k, v in self.trained().items()}

    def forget_reference(self) -> None:
        """Free the copy of the weights, where no KL needs it."""
        self._before = None

    @contextmanager
    def reference(self) -> Iterator[None]:
        if self._before is None:
            raise RuntimeError("the reference was given up")
        trained = self.trained()
        now = {name: value.data for name, value in trained.items()}
        try:
            for name, value in trained.items():
                value.data = self._before[name].to(value.device)
            yield
        finally:
            for name, value in trained.items():
                value.data = now[name]

    def export(self, folder: Path) -> None:
        self.network.save_pretrained(folder)
        self.processor.save_pretrained(folder)


class _LoraTrainable(Trainable):
    kind = "lora"

    def __init__(self, peft: Any, processor: Any, reference: str | None):
        super().__init__(peft.get_base_model(), processor)
        self.peft, self._reference = peft, reference
        self.reference_is = "the weights without the adapter" if reference is None else "the adapter it started from"

    @contextmanager
    def reference(self) -> Iterator[None]:
        if self._reference is None:
            with self.peft.disable_adapter():
                yield
            return
        self.peft.set_adapter(self._reference, inference_mode=True)
        try:
            yield
        finally:
            self.peft.set_adapter(_TRAINED)

    def export(self, folder: Path) -> None:
        self.peft.save_pretrained(folder, selected_adapters=[_TRAINED])
        self.processor.save_pretrained(folder)


def restore(network: Any, init_from: str) -> Any:
    """Load what training wrote into a network: an adapter's folder, or a checkpoint (``.ckpt``) of a run.

    Returns:
        The PEFT model around the network where adapters were added to it, else None.

    Raises:
        TrustvidError: nothing of the kind lies there, or it does not fit the network.
    """
    path = Path(init_from).expanduser()
    if (path / "adapter_config.json").is_file():
        from peft import PeftModel

        try:
            return PeftModel.from_pretrained(network, str(path))
        except (ValueError, RuntimeError, KeyError) as error:
            raise TrustvidError(f"init_from={init_from} does not fit this model: {_line(error)}") from error
    if path.suffix == ".ckpt" and path.is_file():
        return _restore_checkpoint(network, path)
    raise TrustvidError(
        f"init_from={init_from}: there is no adapter (adapter_config.json) and no checkpoint (.ckpt); expected what "
        "train.py wrote, e.g. outputs/sft/<run>/policy; for a folder of a whole model set policy.model"
    )


def _restore_checkpoint(network: Any, path: Path) -> Any:
    import torch

    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    stored = checkpoint.get("policy")
    if not isinstance(stored, Mapping):
        raise TrustvidError(f"init_from={path}: the checkpoint holds no policy; expected one that train.py wrote")
    peft = None
    if stored["kind"] == "lora":
        from peft import LoraConfig, get_peft_model

        network.requires_grad_(False)
        peft = get_peft_model(network, LoraConfig(task_type="CAUSAL_LM", **json.loads(stored["settings"])))
    weights = {
        name.removeprefix("network."): value
        for name, value in checkpoint["state_dict"].items()
        if name.startswith("network.")
    }
    _, unknown = network.load_state_dict(weights, strict=False)
    if unknown or not weights:
        named = ", ".join(unknown[:3]) or "no weights"
        raise TrustvidError(f"init_from={path} does not fit this model: it holds {named}")
    return peft


def _refuse_frozen(network: Any) -> None:
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise TrustvidError("adapter.freeze leaves nothing to train; expected fewer expressions")


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
