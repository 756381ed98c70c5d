"""From measures to disturbance channels: two ramps each, absolute or relative to the rest of the clip.

The first ramp of a channel reacts as soon as the disturbance can be told from a clean frame; the second where tools
begin to suffer, and is called the harm ramp. Both are 0 for a clean frame and 1 from where it cannot get worse. Where
the constants come from: frames of BoxWorld under five corruptions, the tools' results on them, and real footage.
"""

from __future__ import annotations

import numpy as np

from trustvid.reliability.measures import Measures

CHANNELS = ("noise", "glare", "dark", "blur", "occlusion")
RAMPS = tuple(f"{channel}{step}" for channel in CHANNELS for step in (1, 2))

# (start, width) of the ramps (measure − start) / width, first and second, clipped to [0, 1].
NOISE = ((1.0, 9.0), (5.0, 45.0))  # σ in grey levels
GLARE = ((0.0, 0.30), (0.0, 0.70))  # share of burnt-out pixels
OCCLUSION = ((0.03, 0.25), (0.05, 0.35))  # share of the picture without texture
# The same for what falls as the disturbance grows: (start − measure) / width.
DARK = ((0.50, 0.40), (0.22, 0.18))  # 95th percentile of V
BLUR = ((2.6, 1.3), (2.2, 1.6))  # sharpness
BLUR_RELATIVE = ((2.0, 1.2), (1.7, 1.5))  # sharpness, where the clip's sharp frames have SHARP

SHARP = 2.9  # relative sharpness of a clip's reference frames: clear of both ramps, so that usual variation is free
FLOOR = 0.5  # mean |∇|² added to the divisor of the sharpness: a blank frame has none, instead of 0/0
# Power of unit white noise after the 3×3 median: in the Laplacian's variance, in the mean |∇|².
NOISE_IN_LAPLACIAN, NOISE_IN_GRADIENT = 0.99, 0.082
# Shares of the measured power that are kept at least, however much of it the noise estimate claims.
LAPLACIAN_KEPT, GRADIENT_KEPT = 0.05, 0.2
BLANK = 1e-6  # sharpness of a clip's sharp frames up to which they show nothing that could be blurred
SENSOR_NOISE = 1.0  # σ of ordinary footage, grey levels; only what exceeds it is removed
CLEAN_END, SHARP_END = 10.0, 90.0  # percentiles over the clip that stand for its clean and for its sharp frames
UNDISTURBED = 0.2  # frames up to this in other channels may set a reference for one channel …
LEAST_REFERENCES = 5  # … and at least this many do, the least disturbed ones
# Starts of the first ramps for that test, above the clip's clean end: stricter, since the reference must be clean.
NOISE_MARGIN, GLARE_MARGIN = 0.5, 0.01


def absolute_ramps(measures: np.ndarray) -> np.ndarray:
    """Channels of frames by fixed constants.

    Args:
        measures: [n, 9], columns as in ``Measures``.

    Returns:
        [n, 10] in [0, 1], columns as in ``RAMPS``. Each row depends on its own frame alone.
    """
    m = Measures(*np.asarray(measures, dtype=np.float64).T)
    sharpness = m.laplacian / (m.gradient + FLOOR)
    return _table(m.noise, m.saturated, m.bright_end, _falling(sharpness, BLUR), m.flat)


def relative_ramps(measures: np.ndarray) -> np.ndarray:
    """Channels of frames compared with the clip that they come from.

    Burnt-out and textureless areas count above the clip's 10th percentile (a white wall or the sky is no disturbance),
    sharpness counts as a share of that of the clip's sharp frames. Noise and darkness stay absolute. What lies over
    the whole clip alike is therefore not seen as glare, blur or occlusion; and nothing can be chosen there either.

    Args:
        measures: [n, 9], the rows of one clip, n ≥ 1, columns as in ``Measures``.

    Returns:
        [n, 10] in [0, 1], columns as in ``RAMPS``.
    """
    m = Measures(*np.asarray(measures, dtype=np.float64).T)
    noisy = _ramp(m.noise, np.percentile(m.noise, CLEAN_END) + NOISE_MARGIN, NOISE[0][1])
    hidden = np.maximum(noisy, _falling(m.bright_end, DARK)[0])
    clear = _references(hidden)  # in noise and in the dark, nothing is flat and nothing burnt out
    saturated = np.maximum(0.0, m.saturated - np.percentile(m.saturated[clear], CLEAN_END))
    flat = np.maximum(0.0, m.flat - np.percentile(m.flat[clear], CLEAN_END))
    glaring = _ramp(saturated, GLARE_MARGIN, GLARE[0][1])
    sharpness = _relative_sharpness(m, np.maximum(hidden, glaring))
    return _table(m.noise, saturated, m.bright_end, _falling(sharpness, BLUR_RELATIVE), flat)


def _relative_sharpness(m: Measures, disturbed: np.ndarray) -> np.ndarray:
    """[n] sharpness without the part that noise feigns, scaled so that the clip's sharp frames have ``SHARP``.

    The reference is taken from frames free of noise, darkness and glare (``disturbed`` [n]): remains of noise, up to
    5.5 times as sharp as the picture, and the rims of burnt-out areas would set it so high that clean frames look
    blurred. Occluded frames may set it: what is unfocused has no sharp rim (at most 1.2 times was measured), and
    pictures with large plain areas are often the sharpest of all.
    """
    power = np.maximum(0.0, m.noise - SENSOR_NOISE) ** 2
    laplacian = np.maximum(LAPLACIAN_KEPT * m.laplacian, m.laplacian - NOISE_IN_LAPLACIAN * power)
    gradient = np.maximum(GRADIENT_KEPT * m.gradient, m.gradient - NOISE_IN_GRADIENT * power)
    sharpness = laplacian / (gradient + FLOOR)
    reference = np.percentile(sharpness[_references(disturbed)], SHARP_END)
    if reference <= BLANK:  # none is less sharp than another
        return np.full_like(sharpness, SHARP)
    return SHARP * sharpness / reference


def _references(disturbed: np.ndarray) -> np.ndarray:
    """bool [n]: frames that may set a reference, from how disturbed [n] they are otherwise."""
    allowed = np.sort(disturbed)[:LEAST_REFERENCES][-1]
    return disturbed <= max(UNDISTURBED, allowed)


def _table(
    noise: np.ndarray, saturated: np.ndarray, bright_end: np.ndarray, blur: list[np.ndarray], flat: np.ndarray
) -> np.ndarray:
    """[n, 10] in the order of ``RAMPS``."""
    columns = [*_rising(noise, NOISE), *_rising(saturated, GLARE), *_falling(bright_end, DARK), *blur]
    return np.stack([*columns, *_rising(flat, OCCLUSION)], axis=1)


def _rising(values: np.ndarray, ramps: tuple[tuple[float, float], ...]) -> list[np.ndarray]:
    return [_ramp(values, start, width) for start, width in ramps]


def _falling(values: np.ndarray, ramps: tuple[tuple[float, float], ...]) -> list[np.ndarray]:
    return [_ramp(-values, -start, width) for start, width in ramps]


def _ramp(values: np.ndarray, start: float, width: float) -> np.ndarray:
    return np.clip((values - start) / width, 0.0, 1.0)
