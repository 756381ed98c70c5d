"""Perspective of a level pinhole camera: faces of boxes, homographies of planes, clipping, order of painting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trustvid.benchmarks.boxworld.world import CX, CY, FOCAL, Box

NEAR = 0.25  # metres; faces are clipped there
# Sides of a box in its own axes: north, east, south, west; the corners of side i are CORNERS[i] and CORNERS[i + 1].
_CORNERS = np.array([[-0.5, 0.5], [0.5, 0.5], [0.5, -0.5], [-0.5, -0.5]])
PLATE_DROP = 0.06  # of a box's height, between its top and its sign plates
PLATE_PROPORTION = 2.0  # height of a sign plate over the width of a letter
LARGEST_PLATE = 0.92  # of a side's width or height
MAX_COORDINATE = 8000.0  # pixels; polygons are cut there, far outside the picture
SUBPIXEL_BITS = 4  # fixed-point bits of polygon coordinates in OpenCV's fillers


TOP = 4  # the face that is no side


@dataclass(frozen=True)
class Camera:
    """A camera pose: position in metres, yaw in degrees clockwise."""

    x: float
    z: float
    yaw: float
    height: float

    def project_planes(self, planes: np.ndarray) -> np.ndarray:
        """Homographies [F, 3, 3] of planes [F, (origin, u, v), xyz]: from (a, b), origin + a·u + b·v, to pixels."""
        sin, cos = np.sin(np.radians(self.yaw)), np.cos(np.radians(self.yaw))
        vectors = planes[:, [1, 2, 0]].copy()  # [F, (u, v, origin), xyz]
        vectors[:, 2] -= np.array([self.x, self.height, self.z])
        right = cos * vectors[..., 0] - sin * vectors[..., 2]
        ahead = sin * vectors[..., 0] + cos * vectors[..., 2]
        return np.stack([FOCAL * right + CX * ahead, CY * ahead - FOCAL * vectors[..., 1], ahead], axis=1)

    def to_camera(self, x: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ground points as (metres to the right, metres ahead)."""
        sin, cos = np.sin(np.radians(self.yaw)), np.cos(np.radians(self.yaw))
        dx, dz = np.asarray(x) - self.x, np.asarray(z) - self.z
        return cos * dx - sin * dz, sin * dx + cos * dz


def to_fixed(polygon: np.ndarray) -> np.ndarray:
    """Pixel coordinates [..., 2] as the int32 that OpenCV takes with ``shift=SUBPIXEL_BITS``."""
    return np.rint(polygon * (1 << SUBPIXEL_BITS)).astype(np.int32)


def footprints(boxes: Sequence[Box]) -> np.ndarray:
    """Corners [B, 4, 2] (x, z) of footprints: north-west, north-east, south-east, south-west in a box's own axes."""
    table = np.array([(box.x, box.z, box.width, box.depth, np.radians(box.yaw)) for box in boxes], float).reshape(-1, 5)
    sin, cos = np.sin(table[:, 4:]), np.cos(table[:, 4:])
    across, along = _CORNERS[:, 0] * table[:, 2:3], _CORNERS[:, 1] * table[:, 3:4]
    return np.stack([table[:, :1] + cos * across + sin * along, table[:, 1:2] - sin * across + cos * along], axis=2)


def side_length(box: Box, side: int) -> float:
    """Width in metres of a vertical side."""
    return box.width if side in (0, 2) else box.depth


def plate_rectangle(box: Box, side: int) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a side's sign plate as shares of the side's width and height."""
    width = min(LARGEST_PLATE, (len(box.word or "") + 1.0) * box.letter / side_length(box, side))
    height = min(LARGEST_PLATE - PLATE_DROP, PLATE_PROPORTION * box.letter / box.height)
    return (1.0 - width) / 2, PLATE_DROP, (1.0 + width) / 2, PLATE_DROP + height


def face_planes(boxes: Sequence[Box]) -> np.ndarray:
    """Planes [5·B, (origin, u, v), xyz] of each box's north, east, south, west side and top.

    Seen from outside, the origin of a side is its top left corner, u its whole width, v its whole height downwards. The
    top's u runs along the width, its v along the depth.
    """
    corners = footprints(boxes)
    height = np.array([box.height for box in boxes], float)[:, None]
    left, right = np.roll(corners, -1, axis=1), corners  # of sides 0–3
    planes = np.zeros((len(boxes), 5, 3, 3))
    planes[:, :4, 0, 0], planes[:, :4, 0, 1], planes[:, :4, 0, 2] = left[..., 0], height, left[..., 1]
    planes[:, :4, 1, ::2] = right - left
    planes[:, :4, 2, 1] = -height
    planes[:, TOP, 0, 0], planes[:, TOP, 0, 1], planes[:, TOP, 0, 2] = corners[:, 0, 0], height[:, 0], corners[:, 0, 1]
    planes[:, TOP, 1, ::2] = corners[:, 1] - corners[:, 0]
    planes[:, TOP, 2, ::2] = corners[:, 3] - corners[:, 0]
    return planes.reshape(-1, 3, 3)


def project_rectangle(homography: np.ndarray, a0: float, b0: float, a1: float, b1: float) -> np.ndarray | None:
    """Polygon [N, 2] in pixels of the rectangle (a0, b0)–(a1, b1) of a plane, cut at the near plane.

    None when all of it lies behind the near plane.
    """
    plane = np.array([[a0, a1, a1, a0], [b0, b0, b1, b1], [1.0, 1.0, 1.0, 1.0]])
    points = (homography @ plane).T  # [4, 3] homogeneous pixels; the third is the distance ahead
    depth = points[:, 2]
    if (depth < NEAR).any():
        points = _clip_near(points)
        if len(points) < 3:
            return None
        depth = points[:, 2]
    return np.clip(points[:, :2] / depth[:, None], -MAX_COORDINATE, MAX_COORDINATE)


def _clip_near(points: np.ndarray) -> np.ndarray:
    """Homogeneous polygon [N, 3] cut at depth NEAR (Sutherland–Hodgman); may come back empty."""
    kept: list[np.ndarray] = []
    for start, end in zip(points, np.roll(points, -1, axis=0), strict=True):
        inside, next_inside = start[2] >= NEAR, end[2] >= NEAR
        if inside:
            kept.append(start)
        if inside != next_inside:
            share = (NEAR - start[2]) / (end[2] - start[2])
            kept.append(start + share * (end - start))
    return np.array(kept).reshape(-1, 3)


@dataclass(frozen=True)
class View:
    """One face of a box as a camera sees it.

    Attributes:
        box: index of the box.
        side: 0–3 (north, east, south, west in the box's own axes) or ``TOP``.
        homography: [3, 3], from the face's unit square (a to the right, b downwards) to pixels.
        polygon: float [N, 2], its outline in pixels, cut at the near plane.
        fixed: int32 [N, 2], the same in fixed-point numbers (:func:`to_fixed`).
    """

    box: int
    side: int
    homography: np.ndarray
    polygon: np.ndarray
    fixed: np.ndarray


class Faces:
    """The faces of a set of boxes, ready to be viewed from any pose."""

    def __init__(self, boxes: Sequence[Box]):
        self.boxes = tuple(boxes)
        self._centres = np.array([[box.x, box.z] for box in boxes], float).reshape(-1, 2)
        self._reach = np.array([np.hypot(box.width, box.depth) / 2 for box in boxes], float)
        planes = face_planes(boxes)
        self._planes = planes  # [F, (origin, u, v), xyz]
        outward = np.cross(planes[:, 1], planes[:, 2])
        self._outward, self._levels = outward, (outward * planes[:, 0]).sum(1)  # a plane: outward · point = level
        corners = footprints(boxes)
        edges = np.roll(corners, -1, axis=1) - corners
        normals = np.stack([-edges[..., 1], edges[..., 0]], axis=-1)  # outward: the corners run clockwise
        self._normals, self._offsets = normals, (normals * corners).sum(-1)  # [B, 4, 2], [B, 4]
        reach = np.einsum("isc,jkc->isjk", normals, corners) - self._offsets[:, :, None, None]
        self._beyond = (reach >= -1e-9).all(-1)  # [i, s, j]: box j lies wholly outside side s of box i

    def views(self, camera: Camera) -> list[View]:
        """The faces to paint, in this order: those that face the camera and touch the picture."""
        if not self.boxes:
            return []
        boxes = self._around(camera)
        faces = (5 * boxes[:, None] + np.arange(5)).ravel()
        eye = np.array([camera.x, camera.height, camera.z])
        faces = faces[self._outward[faces] @ eye - self._levels[faces] > 1e-9]
        homographies = camera.project_planes(self._planes[faces])
        corners = homographies @ np.array([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
        across, down, ahead = corners[:, 0], corners[:, 1], corners[:, 2]  # [F, 4] each
        outside = (ahead < NEAR).all(1) | (across < -ahead).all(1) | (across > (2 * CX + 2) * ahead).all(1)
        outside |= (down > (2 * CY + 2) * ahead).all(1)
        cut = (ahead < NEAR).any(1)
        safe = np.where(ahead < NEAR, 1.0, ahead)
        outlines = np.clip(corners[:, :2] / safe[:, None], -MAX_COORDINATE, MAX_COORDINATE).transpose(0, 2, 1)
        fixed = to_fixed(outlines)
        by_box: dict[int, list[View]] = {}
        for row in np.flatnonzero(~outside):
            polygon, points = outlines[row], fixed[row]
            if cut[row]:
                polygon = project_rectangle(homographies[row], 0.0, 0.0, 1.0, 1.0)
                if polygon is None:
                    continue
                points = to_fixed(polygon)
            box, side = divmod(int(faces[row]), 5)
            by_box.setdefault(box, []).append(View(box, side, homographies[row], polygon, points))
        order = self._paint_order(camera, np.array(sorted(by_box), int))
        return [view for box in order for view in by_box[box]]

    def _around(self, camera: Camera) -> np.ndarray:
        """Indices of the boxes that may be in the field of view of 90 degrees, by circles around their footprints."""
        right, ahead = camera.to_camera(self._centres[:, 0], self._centres[:, 1])
        return np.flatnonzero((ahead > -self._reach) & (np.abs(right) - ahead < 1.5 * self._reach))

    def _paint_order(self, camera: Camera, seen: np.ndarray) -> list[int]:
        """The boxes ``seen`` from the one to paint first (farthest) to the last.

        Box b can hide a part of box a only if no side of a's or b's footprint separates the two with the camera on a's
        side. Boxes are taken one by one, the farthest of those that hide nothing unpainted.
        """
        eye = self._normals[seen] @ np.array([camera.x, camera.z]) - self._offsets[seen]  # > 0: outside that side
        beyond = self._beyond[np.ix_(seen, range(4), seen)]
        by_a = (beyond & (eye <= 0)[:, :, None]).any(1)  # [a, b]: b beyond a side of a, the camera within it
        by_b = (beyond & (eye > 0)[:, :, None]).any(1).T  # [a, b]: a and the camera beyond a side of b
        hides = (~(by_a | by_b)).T.astype(np.int64)  # [b, a]
        np.fill_diagonal(hides, 0)
        distance = np.hypot(*(self._centres[seen] - (camera.x, camera.z)).T)
        ranked = np.argsort(-distance, kind="stable")
        hides = hides[np.ix_(ranked, ranked)]
        waiting = hides.sum(1)  # how many unpainted boxes each may hide
        order: list[int] = []
        for _ in seen:
            chosen = int(np.argmin(waiting))  # the first of equals is the farthest; also breaks a cycle
            order.append(int(seen[ranked[chosen]]))
            waiting -= hides[:, chosen]
            waiting[chosen] = 1 << 30
        return order
