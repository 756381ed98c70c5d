"""From a conversation with frames to a model's input tensors, and from several conversations to one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from trustvid.errors import TrustvidError
from trustvid.policy.base import Message, PolicyRequest
from trustvid.policy.vlm_families import Family
from trustvid.policy.vlm_positions import timed_positions
from trustvid.policy.vlm_settings import Showing

Tensors = dict[str, torch.Tensor]

# Ticks of the clock in which processors are told the times of frames: they know frame numbers and a rate only.
CLOCK_HZ = 1000
_WRAPPED = "<|vision_start|><|video_pad|><|vision_end|>"
_BY_TOKEN = ("input_ids", "attention_mask", "mm_token_type_ids", "position_ids")  # last axis: tokens


@dataclass(frozen=True)
class Shown:
    """The frames of one message.

    Attributes:
        pixels: uint8 RGB [n, height, width, 3].
        times: [n] seconds from the clip's first frame.
        step: mean seconds between neighbours.
    """

    pixels: np.ndarray
    times: np.ndarray
    step: float

    def metadata(self) -> dict[str, Any]:
        """What processors are told of a video: on a clock of milliseconds, so that uneven frames have true times too.

        The total is chosen such that frames / total · rate, which some processors take for the sampling rate, is the
        mean rate of the frames.
        """
        ticks = [round(float(time) * CLOCK_HZ) for time in self.times]
        return {
            "total_num_frames": max(1, round(len(ticks) * self.step * CLOCK_HZ)),
            "fps": float(CLOCK_HZ),
            "frames_indices": ticks,
            "duration": float(self.times[-1]),
            "height": self.pixels.shape[1],
            "width": self.pixels.shape[2],
        }


def shown_frames(message: Message, request: PolicyRequest, pairs: bool) -> Shown:
    """The frames of a message; with ``pairs``, the last one is repeated where their number is odd."""
    indices = list(message.frames)
    if pairs and len(indices) % 2:
        indices.append(indices[-1])
    times = np.asarray(request.clip.timestamps, dtype=np.float64)[indices]
    distinct = len(set(indices))
    step = float(times[-1] - times[0]) / (distinct - 1) if distinct > 1 else 1.0 / request.clip.fps
    return Shown(request.clip.frames(indices), times, step)


def chat_of(request: PolicyRequest, family: Family, frames_as: str) -> tuple[list[dict[str, Any]], list[Shown]]:
    """The conversation as chat templates take it, each message's frames before its text, and the videos in it."""
    chat, videos = [], []
    for message in request.messages:
        content: list[dict[str, Any]] = []
        if message.frames:
            as_video = frames_as == "video"
            shown = shown_frames(message, request, pairs=family.pairs and as_video)
            if as_video:
                videos.append(shown)
                content.append({"type": "video", "video": shown.pixels})
                if family.times == "note":
                    content.append(_note_of_times(shown))
            elif family.media_first:
                content += [{"type": "image", "image": frame} for frame in shown.pixels]
                content.append(_note_of_times(shown))
            else:
                for time, frame in zip(shown.times, shown.pixels, strict=True):
                    content += [{"type": "text", "text": f"{time:.2f} s: "}, {"type": "image", "image": frame}]
                content.append({"type": "text", "text": "\n"})
        content.append({"type": "text", "text": message.text})
        chat.append({"role": message.role, "content": content})
    return chat, videos


def _note_of_times(shown: Shown) -> dict[str, Any]:
    """A line behind frames that says when they are."""
    listed = ", ".join(f"{time:.2f} s" for time in shown.times)
    return {"type": "text", "text": f"Times of these frames: {listed}.\n"}


def encode(request: PolicyRequest, processor: Any, network: Any, family: Family, showing: Showing) -> Tensors:
    """Input tensors of one conversation that waits for a reply: a batch of one, without padding, positions included."""
    chat, videos = chat_of(request, family, showing.frames_as)
    lengths = {len(shown.times) for shown in videos}
    if family.equal and len(lengths) > 1:
        raise TrustvidError(
            f"videos of {', '.join(map(str, sorted(lengths)))} frames in one conversation; this model takes equally "
            "many of each: expected frames_as=images"
        )
    settings: dict[str, Any] = {"do_sample_frames": False}
    if videos:
        settings["video_metadata"] = [[shown.metadata() for shown in videos]]
        settings["videos_kwargs"] = _resized(showing, family, max(lengths))
    elif any(message.frames for message in request.messages):
        settings["images_kwargs"] = {**family.images, **_resized(showing, family, 1)}
    template = None  # the processor's own choice: SmolVLM's has another one for videos than the one that is stored
    if family.wraps_frames:
        template = processor.chat_template.replace(_WRAPPED, "<|video_pad|>")
    tensors = dict(
        processor.apply_chat_template(
            chat,
            template,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            sanitize_control_tokens=True,  # words of a question, or read in the video, never act as control tokens
            processor_kwargs=settings,
        )
    )
    tensors["position_ids"] = _positions(tensors, videos, network, family)
    return tensors


def _positions(tensors: Tensors, videos: Sequence[Shown], network: Any, family: Family) -> torch.Tensor:
    """Positions as the family's model takes them: [1, n], or [4, 1, n] along the text, then time, height and width."""
    along = torch.arange(tensors["input_ids"].shape[1])[None]
    if family.times == "positions":
        return _with_true_times(tensors, videos, network.config)
    if not hasattr(network.model, "get_rope_index"):
        return along
    grids = {name: tensors[name] for name in ("image_grid_thw", "video_grid_thw") if name in tensors}
    axes, _ = network.model.get_rope_index(tensors["input_ids"], tensors["mm_token_type_ids"], **grids)
    return torch.cat([along[None], axes])


def _resized(showing: Showing, family: Family, frames: int) -> dict[str, Any]:
    """The bounds of the resizing as the family's processors take them."""
    if showing.min_pixels is None or showing.max_pixels is None:
        return {}
    if family.area is None:
        raise TrustvidError("this model resizes frames to a fixed size; expected min_pixels and max_pixels to be null")
    count = frames if family.area == "clip" else 1
    return {"size": {"shortest_edge": showing.min_pixels * count, "longest_edge": showing.largest(frames) * count}}


def _with_true_times(tensors: Mapping[str, torch.Tensor], videos: Sequence[Shown], config: Any) -> torch.Tensor:
    """Positions [4, 1, n] as the model takes them: along the text, then in time, height and width."""
    vision = config.vision_config
    none = torch.zeros(0, 3, dtype=torch.long)
    pair = vision.temporal_patch_size
    positions = timed_positions(
        tensors["mm_token_type_ids"][0],
        tensors.get("image_grid_thw", none),
        tensors.get("video_grid_thw", none),
        [shown.times.reshape(-1, pair).mean(axis=1).tolist() for shown in videos],
        vision.spatial_merge_size,
        vision.tokens_per_second,
    )
    return torch.cat([torch.arange(positions.shape[1])[None], positions])[:, None]


def extended(tensors: Mapping[str, torch.Tensor], tokens: Sequence[int]) -> Tensors:
    """The input tensors of the same conversation with ``tokens`` of text behind it."""
    longer = dict(tensors)
    more = torch.tensor([list(tokens)], dtype=torch.long)
    longer["input_ids"] = torch.cat([tensors["input_ids"], more], dim=1)
    longer["attention_mask"] = torch.cat([tensors["attention_mask"], torch.ones_like(more)], dim=1)
    if "mm_token_type_ids" in tensors:
        kinds = tensors["mm_token_type_ids"]
        longer["mm_token_type_ids"] = torch.cat([kinds, torch.zeros_like(more).to(kinds.dtype)], dim=1)
    positions = tensors["position_ids"]
    longer["position_ids"] = torch.cat([positions, positions[..., -1:] + 1 + torch.arange(len(tokens))], dim=-1)
    return longer


def behind(tensors: Mapping[str, torch.Tensor], start: int) -> Tensors:
    """The tokens from ``start`` on, all of them text, as input for a network that has read what stands before them."""
    return {name: tensors[name][..., start:] for name in ("input_ids", "attention_mask", "position_ids")}


def shape_key(tensors: Mapping[str, torch.Tensor]) -> tuple:
    """Equal for conversations whose media can be joined along their first axis, so that one batch can hold them."""
    media = {name: tuple(value.shape[1:]) for name, value in tensors.items() if name not in _BY_TOKEN}
    return tuple(sorted(media.items()))


def joined(batch: Sequence[Mapping[str, torch.Tensor]], pad_token: int) -> Tensors:
    """Several conversations of one :func:`shape_key` as one batch, padded on the left."""
    width = max(tensors["input_ids"].shape[-1] for tensors in batch)
    out: Tensors = {}
    for name in batch[0]:
        parts = [tensors[name] for tensors in batch]
        if name in _BY_TOKEN:
            fill = pad_token if name == "input_ids" else 0
            parts = [torch.nn.functional.pad(part, (width - part.shape[-1], 0), value=fill) for part in parts]
        out[name] = torch.cat(parts, dim=-2 if name == "position_ids" else 0)
    return out
