"""Camera motion between two frames from sparse optical flow with a forward-backward check.

Model: a level pinhole camera whose translation, if any, runs along its optical axis. In normalised coordinates
(x, y) = ((u - cx) / f, (v - cy) / f), a rotation (yaw to the right, pitch up, roll) by small angles moves a point by
    dx = -yaw (1 + x²) + pitch x y + roll y,     dy = -yaw x y + pitch (1 + y²) - roll x,
and a step forward moves it along (x, y) by an unknown share of its radius that depends on depth. The component of flow
*across* the radius therefore shows rotation alone, whatever the scene's depth: yaw · y/r + pitch · x/r - roll · r.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np

# Corners: enough for a robust fit, few enough for two milliseconds a pair.
_MAX_CORNERS = 100
_MIN_POINTS = 8
_LK = {
    "winSize": (11, 11),
    "maxLevel": 2,
    "criteria": (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 8, 0.1),
    "minEigThreshold": 1e-4,
}
# All pixel thresholds are at the working width.
_BACKWARD_PX = 0.8
_INLIER_PX = 1.2
# Radial flow tells rotation from expansion only where depth is uniform: it enters the fit just to keep it well posed.
_RADIAL_WEIGHT = 0.03
# The pure rotation explains nearly as many points as rotation + expansion: it is the better determined of the two.
_PURE_ROTATION_SHARE = 0.85
_FULL_TRUST_POINTS = 30


@dataclass(frozen=True)
class StepMotion:
    """Camera motion from one frame to the next.

    Attributes:
        yaw_deg: rotation about the vertical axis, positive to the right.
        pitch_deg: positive upwards.
        expansion: median growth of a point's distance from the image centre, as a share of it; positive when the camera
            moves forward.
        score: share of points that pass the forward-backward check × share of these that the fit explains, less when
            there are few; 0–1.
        points: points that passed the check.
    """

    yaw_deg: float
    pitch_deg: float
    expansion: float
    score: float
    points: int


class EgoMotion:
    """Motion estimator for frames of one size.

    Args:
        height, width: of the frames in pixels.
        fov_deg: horizontal field of view, 0–180 exclusive.
        working_width: frames wider than this are halved in size until they are not; flow costs grow with area.
    """

    def __init__(self, height: int, width: int, fov_deg: float, working_width: int = 320):
        scale = min(1.0, working_width / width)
        self.width, self.height = max(1, round(width * scale)), max(1, round(height * scale))
        self.focal = self.width / 2 / math.tan(math.radians(fov_deg) / 2)
        self.centre = np.array([(self.width - 1) / 2, (self.height - 1) / 2])
        self._cylinder = _cylinder_maps(self.width, self.height, self.focal)
        self._window = cv2.createHanningWindow(self._cylinder[0].shape[::-1], cv2.CV_32F)

    def steps(self, images: np.ndarray) -> list[StepMotion | None]:
        """Motion from each frame to the next.

        Args:
            images: uint8 RGB [T, height, width, 3].

        Returns:
            T-1 motions; None where too few points can be followed (a blank frame, say).
        """
        greys = [self._grey(image) for image in images]
        if min(self.width, self.height) < 16:
            return [None] * (len(greys) - 1)  # smaller than the flow's window
        unrolled = [cv2.remap(grey, *self._cylinder, cv2.INTER_LINEAR).astype(np.float32) for grey in greys]
        return [
            self._step(greys[t], greys[t + 1], self._coarse_yaw(unrolled[t], unrolled[t + 1]))
            for t in range(len(greys) - 1)
        ]

    def _grey(self, image: np.ndarray) -> np.ndarray:
        grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
        if grey.shape != (self.height, self.width):
            grey = cv2.resize(grey, (self.width, self.height), interpolation=cv2.INTER_AREA)
        return cv2.GaussianBlur(grey, (3, 3), 0)  # sensor noise makes corners of its own

    def _coarse_yaw(self, before: np.ndarray, after: np.ndarray) -> float:
        """Radians: on a cylinder a yaw is a shift, however large; 0 where the two do not correlate."""
        (shift, _), response = cv2.phaseCorrelate(before, after, self._window)
        per_pixel = self._cylinder_step
        return -shift * per_pixel if response > 0.08 else 0.0

    @property
    def _cylinder_step(self) -> float:
        """Radians per column of the cylinder."""
        return 2 * math.atan(self.width / 2 / self.focal) / self._cylinder[0].shape[1]

    def _step(self, before: np.ndarray, after: np.ndarray, guess: float) -> StepMotion | None:
        # Looked for at half size: a quarter of the time, and structure that outlasts noise and coding.
        half = cv2.resize(before, (self.width // 2, self.height // 2), interpolation=cv2.INTER_AREA)
        corners = cv2.goodFeaturesToTrack(half, _MAX_CORNERS, 0.01, 4)
        if corners is None or len(corners) < _MIN_POINTS:
            return None
        corners = corners * 2 + 0.5
        p = (corners[:, 0, :] - self.centre) / self.focal
        predicted = rotate(p, guess, 0.0, 0.0) * self.focal + self.centre
        inside = np.all((predicted >= 0) & (predicted < (self.width, self.height)), axis=1)
        if inside.sum() < _MIN_POINTS:
            return None
        start, p = corners[inside], p[inside]
        found, agrees = track_points(before, after, start, predicted[inside].astype(np.float32)[:, None, :])
        if agrees.sum() < _MIN_POINTS:
            return None
        return self._fit(p[agrees], (found[agrees] - self.centre) / self.focal, guess, agrees.mean())

    def _fit(self, p: np.ndarray, q: np.ndarray, guess: float, followed: float) -> StepMotion:
        limit = _INLIER_PX / self.focal
        rotation = fit_rotation(p, q, guess, limit, radial_weight=1.0)
        inliers = np.linalg.norm(derotate(q, *rotation) - p, axis=1) < limit
        if inliers.mean() < _PURE_ROTATION_SHARE:
            moving = fit_rotation(p, q, guess, limit, radial_weight=_RADIAL_WEIGHT)
            across, _ = _split(p, derotate(q, *moving) - p)
            moving_inliers = np.abs(across) < limit
            if inliers.mean() < _PURE_ROTATION_SHARE * moving_inliers.mean():
                rotation, inliers = moving, moving_inliers
        _, along = _split(p, derotate(q, *rotation) - p)
        radius = np.linalg.norm(p, axis=1)
        usable = inliers & (radius > 0.1)
        expansion = float(np.median(along[usable] / radius[usable])) if usable.any() else 0.0
        trust = min(1.0, inliers.sum() / _FULL_TRUST_POINTS)
        return StepMotion(
            yaw_deg=math.degrees(rotation[0]),
            pitch_deg=math.degrees(rotation[1]),
            expansion=expansion,
            score=float(followed * inliers.mean() * trust),
            points=len(p),
        )


@dataclass(frozen=True)
class MotionRates:
    """Rates per second from which a motion has a name.

    Attributes:
        turn_deg, tilt_deg: of yaw and of pitch, degrees.
        growth: of image distances, a share.
    """

    turn_deg: float
    tilt_deg: float
    growth: float


def motion_label(yaw_deg: float, pitch_deg: float, expansion: float, seconds: float, rates: MotionRates) -> str:
    """ "turn left"/"turn right", "up"/"down", "forward"/"backward" or "still", for a step of ``seconds``."""
    yaw, pitch, growth = yaw_deg / seconds, pitch_deg / seconds, expansion / seconds
    if abs(yaw) >= rates.turn_deg and abs(yaw) >= abs(pitch):
        return "turn right" if yaw > 0 else "turn left"
    if abs(pitch) >= rates.tilt_deg:
        return "up" if pitch > 0 else "down"
    if abs(growth) >= rates.growth:
        return "forward" if growth > 0 else "backward"
    return "still"


def rotate(p: np.ndarray, yaw: float, pitch: float, roll: float) -> np.ndarray:
    """Where points [N, 2] (normalised coordinates) lie after the camera rotated by the angles (radians)."""
    return _project(p, _rotation(yaw, pitch, roll))


def derotate(q: np.ndarray, yaw: float, pitch: float, roll: float) -> np.ndarray:
    """Inverse of :func:`rotate`."""
    return _project(q, _rotation(yaw, pitch, roll).T)


def fit_rotation(
    p: np.ndarray, q: np.ndarray, guess: float, limit: float, radial_weight: float, rounds: int = 6
) -> tuple[float, float, float]:
    """Robust (yaw, pitch, roll) in radians that take points p to q, up to motion along the radius.

    Gauss–Newton on the flow that remains after derotation, with Cauchy weights of scale ``limit``.

    Args:
        p, q: normalised coordinates [N, 2] before and after.
        guess: yaw to start from.
        limit: deviation, normalised, from which a point counts as doubtful.
        radial_weight: weight of flow along the radius, 1 for a pure rotation.
    """
    x, y = p[:, 0], p[:, 1]
    r = np.maximum(np.linalg.norm(p, axis=1), 1e-6)
    across_rows = np.stack([y / r, x / r, -r], axis=1)
    along_rows = np.stack([-x * (1 + r * r) / r, y * (1 + r * r) / r, np.zeros_like(r)], axis=1)
    angles = np.array([guess, 0.0, 0.0])
    for turn in range(rounds):
        across, along = _split(p, derotate(q, *angles) - p)
        scale = limit * max(1.0, 4.0 - turn)  # wide at first, so that a rough guess does not shut points out
        w_across = 1 / (1 + (across / scale) ** 2)
        w_along = radial_weight / (1 + (along / scale) ** 2)
        normal = (across_rows.T * w_across) @ across_rows + (along_rows.T * w_along) @ along_rows
        pull = across_rows.T @ (w_across * across) + along_rows.T @ (w_along * along)
        change = np.linalg.solve(normal + 1e-6 * np.eye(3), pull)
        angles = np.clip(angles + change, -1.0, 1.0)
        if turn >= 3 and np.abs(change).max() < 1e-5:
            break
    return float(angles[0]), float(angles[1]), float(angles[2])


def _rotation(yaw: float, pitch: float, roll: float) -> np.ndarray:
    """Matrix that takes rays of the old camera to the new one (x right, y down, z forward)."""
    cy, sy, cp, sp, cr, sr = *_cos_sin(yaw), *_cos_sin(pitch), *_cos_sin(roll)
    about_y = np.array([[cy, 0, -sy], [0, 1, 0], [sy, 0, cy]])
    about_x = np.array([[1, 0, 0], [0, cp, sp], [0, -sp, cp]])
    about_z = np.array([[cr, sr, 0], [-sr, cr, 0], [0, 0, 1]])
    return about_z @ about_x @ about_y


def _cos_sin(angle: float) -> tuple[float, float]:
    return math.cos(angle), math.sin(angle)


def _project(p: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    rays = p @ matrix[:, :2].T + matrix[:, 2]
    depth = np.where(np.abs(rays[:, 2]) < 1e-3, 1e-3, rays[:, 2])
    return rays[:, :2] / depth[:, None]


def _split(p: np.ndarray, flow: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Components of flow [N, 2] across and along the radius of p."""
    r = np.maximum(np.linalg.norm(p, axis=1), 1e-6)
    across = (-p[:, 1] * flow[:, 0] + p[:, 0] * flow[:, 1]) / r
    along = (p[:, 0] * flow[:, 0] + p[:, 1] * flow[:, 1]) / r
    return across, along


def track_points(
    before: np.ndarray, after: np.ndarray, start: np.ndarray, predicted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Positions in ``after`` [N, 2] of points ``start`` [N, 1, 2] looked for from ``predicted`` [N, 1, 2] on, and which
    of them lead back to their start [N]; both frames uint8 grey."""
    found, forward_ok, _ = cv2.calcOpticalFlowPyrLK(
        before, after, start, predicted.copy(), flags=cv2.OPTFLOW_USE_INITIAL_FLOW, **_LK
    )
    back_guess = found - (predicted - start)
    back, backward_ok, _ = cv2.calcOpticalFlowPyrLK(
        after, before, found, back_guess, flags=cv2.OPTFLOW_USE_INITIAL_FLOW, **_LK
    )
    error = np.linalg.norm((back - start)[:, 0, :], axis=1)
    agrees = (forward_ok[:, 0] == 1) & (backward_ok[:, 0] == 1) & (error < _BACKWARD_PX)
    return found[:, 0, :], agrees


def _cylinder_maps(width: int, height: int, focal: float) -> tuple[np.ndarray, np.ndarray]:
    """Maps for cv2.remap onto a cylinder of half the resolution whose columns are equal angles."""
    columns, rows = max(8, width // 2), max(8, height // 2)
    half_angle = math.atan(width / 2 / focal)
    angle = ((np.arange(columns) + 0.5) / columns * 2 - 1) * half_angle
    slope = ((np.arange(rows) + 0.5) / rows - 0.5) * height / focal
    x = np.tile(np.tan(angle), (rows, 1)) * focal + (width - 1) / 2
    y = slope[:, None] / np.cos(angle)[None, :] * focal + (height - 1) / 2
    return x.astype(np.float32), y.astype(np.float32)
