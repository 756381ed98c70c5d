"""What differs between families of vision-language models, as far as transformers does not hide it: one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Family:
    """How a family takes frames.

    Attributes:
        times: how it learns when the frames of a video are. "positions": by the temporal axis of its rotary positions,
            which trustvid computes, since the processor knows even spacing only; "tokens": its processor writes them
            between the frames; "note": not at all, so they are stated in a line after the video.
        pairs: whether two frames share one set of tokens; an odd number of frames is completed by the last one.
        area: what the bounds of its resizing mean: the pixels of a "frame", or of all frames of the "clip" together.
            None: it resizes to a fixed size.
        wraps_frames: its processor puts marks of beginning and end around every frame, so that those of the chat
            template around the whole video are left out, as in its release and in vLLM (transformers 5 has both).
        media_first: its chat template puts the frames of a message before all words of it, wherever they stand, so that
            frames shown one by one have their times in one line behind them.
        equal: whether the videos of one conversation must have equally many frames.
        images: settings of its image processor when frames are shown one by one: each frame as a whole, in one tile.
    """

    times: Literal["positions", "tokens", "note"]
    pairs: bool = False
    area: Literal["frame", "clip"] | None = None
    wraps_frames: bool = False
    media_first: bool = False
    equal: bool = False
    images: Mapping[str, Any] = field(default_factory=dict)


# By the model type in the weights' config.json. Fine-tuned weights (Video-R1: qwen2_5_vl) are of their base's family.
FAMILIES: Mapping[str, Family] = {
    "qwen2_5_vl": Family("positions", pairs=True, area="frame"),
    "qwen3_vl": Family("tokens", pairs=True, area="clip", wraps_frames=True),
    "qwen3_vl_moe": Family("tokens", pairs=True, area="clip", wraps_frames=True),
    "internvl": Family("note", equal=True, images={"crop_to_patches": False}),
    "llava_onevision": Family("note", media_first=True, equal=True),
    "smolvlm": Family("tokens", images={"do_image_splitting": False}),  # whole seconds
}
