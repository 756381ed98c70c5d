"""Loading published models: each once in a process, shared by all tools that ask for the same one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trustvid.errors import TrustvidError
from trustvid.tools.pretrained.checkpoint import Checkpoint
from trustvid.weights import first_line, missing_weights


@dataclass(frozen=True)
class Architecture:
    """Which classes of transformers read a checkpoint.

    Attributes:
        network: the model's class; config.json of the checkpoint must name it among its ``architectures`` (or name none
            and be of its kind), and no weights may be missing: they would be left at random.
        processor: the class of its processor.
        instead: the tool's choice that needs no weights, for error messages.
    """

    network: str
    processor: str
    instead: str


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model in memory with its processor. Use it inside ``with model.in_use():``.

    Attributes:
        network: in evaluation mode.
        processor: what turns images and words into its inputs.
    """

    network: Any
    processor: Any
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """No gradients, and one thread at a time: tokenizers keep settings of a call in themselves."""
        import torch

        with self._one_at_a_time, torch.inference_mode():
            yield

    def pixels(self, images: Any, prepare: Any = None) -> Any:
        """Input tensor of images (uint8 RGB [H, W, 3] each), on the network's device and in its dtype.

        ``prepare``: the image processor; None = the one inside ``processor``.
        """
        prepare = prepare or self.processor.image_processor
        tensor = prepare(images, return_tensors="pt", input_data_format="channels_last")["pixel_values"]
        return tensor.to(self.network.device, self.network.dtype)


_LOADED: dict[tuple, Loaded] = {}
_FAILED: dict[tuple, str] = {}
_LOADING = threading.Lock()


def load(checkpoint: Checkpoint, architecture: Architecture) -> Loaded:
    """The model of a checkpoint, read at the first call in a process.

    Raises:
        TrustvidError: a package is missing, the weights are not on this machine and cannot be fetched (the message has
            the download command), or they are of another architecture. What the hub refused is not asked for again:
            every call would wait for it.
    """
    try:
        import torch
        import transformers  # noqa: F401 (the classes are taken from it below)
    except ImportError as error:
        raise TrustvidError(
            f"model={checkpoint.model} needs torch and transformers ({first_line(error)}): pip install -r "
            f"requirements.txt, or use {architecture.instead}"
        ) from error
    device = checkpoint.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    key = (checkpoint.model, checkpoint.revision, checkpoint.offline, checkpoint.dtype, device, architecture)
    with _LOADING:
        if key in _FAILED:
            raise TrustvidError(_FAILED[key])
        if key not in _LOADED:
            try:
                _LOADED[key] = _read(checkpoint, architecture, device)
            except TrustvidError as error:
                if not (checkpoint.offline or checkpoint.is_folder):
                    _FAILED[key] = str(error)
                raise
        return _LOADED[key]


def _read(checkpoint: Checkpoint, architecture: Architecture, device: str) -> Loaded:
    import torch
    import transformers
    from transformers.utils import logging as hf_logging

    if checkpoint.is_folder and not (Path(checkpoint.model) / "config.json").is_file():
        raise TrustvidError(missing_weights(checkpoint, "there is no config.json", architecture.instead))
    options: dict[str, Any] = {"local_files_only": checkpoint.offline or checkpoint.is_folder}
    if not checkpoint.is_folder:
        options["revision"] = checkpoint.revision or "main"
    dtype = checkpoint.dtype if checkpoint.dtype == "auto" else getattr(torch, checkpoint.dtype)
    try:
        wanted = getattr(transformers, architecture.network)
        config = transformers.AutoConfig.from_pretrained(checkpoint.model, **options)
        found = config.architectures or []
        # Some published files do not name the class; then the kind of config has to be that of the class.
        if architecture.network not in found and (found or type(config) is not wanted.config_class):
            raise TrustvidError(
                f"model={checkpoint.model} is a {', '.join(found) or type(config).__name__}; expected a "
                f"{architecture.network}, or use {architecture.instead}"
            )
        hf_logging.disable_progress_bar()
        processor = getattr(transformers, architecture.processor).from_pretrained(checkpoint.model, **options)
        network, loading = wanted.from_pretrained(checkpoint.model, dtype=dtype, output_loading_info=True, **options)
        if loading["missing_keys"]:
            lacking = ", ".join(sorted(loading["missing_keys"])[:3])
            raise TrustvidError(
                f"model={checkpoint.model} lacks {len(loading['missing_keys'])} weights of a {architecture.network} "
                f"({lacking}, …), which would be left at random; expected all, or use {architecture.instead}"
            )
        return Loaded(network.to(device).eval(), processor)
    except TrustvidError:
        raise
    except ImportError as error:
        raise TrustvidError(f"model={checkpoint.model} needs a package that is missing: {first_line(error)}") from error
    except OSError as error:
        raise TrustvidError(missing_weights(checkpoint, first_line(error), architecture.instead)) from error
    except Exception as error:  # too little memory, a broken file, a device that is not there: whatever torch says
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise TrustvidError(
            f"model={checkpoint.model} cannot be loaded on {device} ({reason}); or use {architecture.instead}"
        ) from error
