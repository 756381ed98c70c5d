"""Corrupt one picture, of any common layout."""

from __future__ import annotations

import numpy as np

from trustvid.corruption.base import Corruption, check_seed, check_severity
from trustvid.seeding import derive_rng

_ACCEPTED = (
    "accepted are uint8, or float32/float64 with value_range=1 or value_range=255, "
    "shaped [H, W], [H, W, 1], [H, W, 3] (RGB) or [H, W, 4] (RGB and alpha), H and W at least 1"
)


def apply_image(
    image: np.ndarray, corruption: Corruption, severity: int, seed: int = 0, value_range: float | None = None
) -> np.ndarray:
    """One corrupted picture, of the same shape and dtype; the input is left as it is.

    Grey pictures are corrupted as colour ones whose green channel is returned, so noise keeps its strength. Alpha is
    returned untouched, and colours are not mixed with it. Float pictures are worked on in 8 bits, like video frames.
    A picture is a video of one frame: ``h264`` turns it into a key frame, and ``freeze`` and ``frame_drop``, which show
    earlier frames, leave it as it is.

    Args:
        image: uint8, or float32/float64 with ``value_range``.
        corruption: the operator.
        severity: 1–5; 0 returns an equal copy.
        seed: any whole number; the same seed gives the same picture.
        value_range: what white is in a float picture: 1 or 255. A float picture does not tell, and is never guessed.

    Raises:
        ValueError: a shape, dtype, range, severity or seed that is not accepted.
    """
    severity = check_severity(severity)
    image = np.asarray(image)
    _check(image, value_range)
    if severity == 0:
        return image.copy()
    scale = 255.0 / float(value_range) if value_range else 1.0
    pixels = image if image.dtype == np.uint8 else np.rint(image * scale).astype(np.uint8)
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    colour = pixels.reshape(*pixels.shape[:2], channels)[..., :3]
    frame = np.ascontiguousarray(np.repeat(colour, 3, axis=2) if channels == 1 else colour)
    height, width = frame.shape[:2]
    rng = derive_rng(check_seed(seed), "image", corruption.name, severity)
    done = corruption.apply(frame, 0, corruption.plan(1, 1.0, width, height, severity, rng))
    out = image.copy().reshape(height, width, channels)
    changed = done[..., 1:2] if channels == 1 else done
    out[..., :3] = changed if image.dtype == np.uint8 else changed / scale
    return out.reshape(image.shape)


def _check(image: np.ndarray, value_range: float | None) -> None:
    """Refuse what is not accepted, and say what is."""
    fits = image.ndim in (2, 3) and image.size > 0 and (image.ndim == 2 or image.shape[2] in (1, 3, 4))
    if not fits or image.dtype not in (np.uint8, np.float32, np.float64):
        raise ValueError(f"cannot corrupt a picture of {image.dtype} {image.shape}; {_ACCEPTED}")
    if image.dtype == np.uint8:
        if value_range not in (None, 255):
            raise ValueError(f"a uint8 picture has value_range 255, got {value_range!r}; {_ACCEPTED}")
        return
    if value_range not in (1, 255) or isinstance(value_range, bool):
        raise ValueError(f"a float picture needs value_range=1 or value_range=255, got {value_range!r}; {_ACCEPTED}")
    low, high = float(image.min()), float(image.max())
    if not (low >= 0 and high <= value_range):  # also refuses NaN
        raise ValueError(f"a float picture with value_range={value_range:g} holds {low:g}…{high:g}; {_ACCEPTED}")
