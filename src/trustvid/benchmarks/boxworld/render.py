"""Draws the frames of a scene: backdrop by perspective warps, then boxes as textured polygons in painter's order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import cv2
import numpy as np

from trustvid.benchmarks.boxworld import backdrop
from trustvid.benchmarks.boxworld.geometry import SUBPIXEL_BITS, TOP, Camera, Faces, View, project_rectangle, to_fixed
from trustvid.benchmarks.boxworld.textures import Image8, facade, furniture, mip_levels, roof
from trustvid.benchmarks.boxworld.world import CX, CY, FOCAL, HEIGHT, WIDTH, Box, Scene
from trustvid.seeding import derive_rng

HORIZON = HEIGHT // 2  # first row below the horizon
# Rows where the ground's halvings (mip levels) change: the farther, the blurrier, so that nothing flickers.
_GROUND_BANDS = ((0, 9, 4), (9, 18, 3), (18, 34, 2), (34, 62, 1), (62, HEIGHT - HORIZON, 0))
_FLOOR_BANDS = ((0, 40, 1), (40, HEIGHT - HORIZON, 0))
SHELL = -1  # stands for the room itself where boxes have their index
FLAT_SPAN = 9.0  # pixels; smaller faces are painted in their mean colour
_HAZE_GREY = sum(backdrop.HAZE) / 3
# Light on a face by the compass bearing of its normal: the sun stands in the south-west; tops get all of it.
_AMBIENT, _SUN, _SUN_BEARING = 0.84, 0.16, 215.0


def camera_at(scene: Scene, frame: int) -> Camera:
    """The camera of one frame."""
    x, z, yaw = scene.poses[frame]
    return Camera(float(x), float(z), float(yaw), scene.camera_height)


class _Texture:
    """A picture that fills a unit square, and the matrix from its texels to that square."""

    def __init__(self, picture: Image8):
        self.picture = picture
        height, width = picture.shape[:2]
        self.size = max(height, width)
        self.grid = _texel_grid(width, height)

    @cached_property
    def mean(self) -> list[float]:
        """Mean colour."""
        return self.picture.mean((0, 1)).tolist()


class Painter:
    """Draws any frame of one scene; textures are made once, in the constructor.

    >>> Painter(scene).frame(0).shape                                                       # doctest: +SKIP
    (240, 320, 3)
    """

    def __init__(self, scene: Scene):
        self._scene = scene
        rng = derive_rng("backdrop", scene.seed)
        self._faces = Faces((*scene.buildings, *scene.landmarks))
        self._textures: dict[tuple[int, int], list[_Texture]] = {}
        if scene.kind == "city":
            ground, west, north = backdrop.city_ground(scene, rng)
            self._levels = _ground_levels(ground, 5)
            self._ground_scale, self._corner = backdrop.GROUND_SCALE, (west, north)
            self._sky = backdrop.sky_panorama(rng)
            self._sky_map = _sky_map()
        else:
            floor, west, north = backdrop.room_floor(scene, rng)
            self._levels = _ground_levels(floor, 3)
            self._ground_scale, self._corner = backdrop.FLOOR_SCALE, (west, north)
            self._planes, walls = _room_shell(scene, rng)
            self._textures = {(SHELL, side): [wall] for side, wall in enumerate(walls)}

    def frame(self, index: int) -> Image8:
        """The frame as uint8 RGB [240, 320, 3]."""
        camera = camera_at(self._scene, index)
        picture = np.empty((HEIGHT, WIDTH, 3), np.uint8)
        if self._scene.kind == "city":
            self._paint_sky(picture, camera)
            self._paint_ground(picture, camera, _GROUND_BANDS)
            _fade_to_haze(picture)
        else:
            self._paint_ground(picture, camera, _FLOOR_BANDS)
        self._paint_views(picture, [*self._shell(camera), *self._faces.views(camera)])
        return picture

    def frames(self) -> Iterator[Image8]:
        """All frames in order."""
        return (self.frame(index) for index in range(self._scene.n_frames))

    def _paint_sky(self, picture: Image8, camera: Camera) -> None:
        """Copies the part of the panorama that the camera looks at."""
        columns, rows = self._sky_map
        start = round((camera.yaw % 360.0) * backdrop.SKY_PER_DEGREE)
        window = self._sky[:, start : start + 90 * backdrop.SKY_PER_DEGREE + 2]
        cv2.remap(window, columns, rows, cv2.INTER_LINEAR, picture[:HORIZON], cv2.BORDER_REPLICATE)

    def _paint_ground(self, picture: Image8, camera: Camera, bands: tuple[tuple[int, int, int], ...]) -> None:
        """Warps the ground texture band by band, each from the level whose grain suits its distance."""
        west, north = self._corner
        plane = np.array([[[west, 0.0, north], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]]])
        to_pixels = camera.project_planes(plane)[0]
        for first, last, level in bands:
            texture = self._levels[level]
            metre = self._ground_scale / (1 << level)
            matrix = _shifted(to_pixels, 0, HORIZON + first) @ _texel_grid(metre, metre)
            band = picture[HORIZON + first : HORIZON + last]
            band[:] = cv2.warpPerspective(
                texture, matrix, (WIDTH, last - first), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101
            )

    def _paint_views(self, picture: Image8, views: list[View]) -> None:
        """Draws faces given in painter's order; of each only the part that is not hidden by a later one."""
        owner = np.zeros((HEIGHT, WIDTH), np.uint8 if len(views) < 255 else np.uint16)  # number of the foremost face
        for number, view in enumerate(views, start=1):
            cv2.fillConvexPoly(owner, view.fixed, number, shift=SUBPIXEL_BITS)
        bins = len(views) + 1
        pixels = cv2.calcHist([owner], [0], None, [bins], [0, bins]).ravel()
        for number, view in enumerate(views, start=1):
            if pixels[number]:
                _paint_face(picture, owner == number, view, self._texture(view.box, view.side), self._haze(view))

    def _shell(self, camera: Camera) -> list[View]:
        """The room's walls (sides 0–3) and ceiling (4) as faces of box ``SHELL``; nothing in the city."""
        if self._scene.kind == "city":
            return []
        views = []
        for side, homography in enumerate(camera.project_planes(self._planes)):
            polygon = project_rectangle(homography, 0.0, 0.0, 1.0, 1.0)
            if polygon is not None:
                views.append(View(SHELL, side, homography, polygon, to_fixed(polygon)))
        return views

    def _haze(self, view: View) -> float:
        """How much of a face's colour is lost to the distance, 0–1."""
        if self._scene.kind == "room":
            return 0.0
        distance = view.homography[2, 2] + 0.5 * (view.homography[2, 0] + view.homography[2, 1])
        return min(max((float(distance) - 12.0) / 160.0, 0.0), 0.3)

    def _texture(self, box: int, side: int) -> list[_Texture]:
        """Halvings of a face's texture, made when the face is first seen."""
        key = (box, side)
        if key not in self._textures:
            owner = self._faces.boxes[box]
            levels = mip_levels(_lit_face(owner, side, self._scene.kind))
            self._textures[key] = [_Texture(level) for level in levels]
        return self._textures[key]


def _lit_face(box: Box, side: int, kind: str) -> Image8:
    """The texture of a face under the scene's light."""
    if side == TOP:
        return roof(box)
    bearing = np.radians(box.yaw + 90.0 * side - _SUN_BEARING)
    light = float(_AMBIENT + _SUN * np.cos(bearing))
    return facade(box, side, light) if kind == "city" else furniture(box, side, light)


def _paint_face(picture: Image8, own: np.ndarray, view: View, levels: list[_Texture], haze: float) -> None:
    """Warps the texture of a face into its ``own`` pixels (bool [240, 320]), paling it towards the haze."""
    left, top, width, height = cv2.boundingRect(own.view(np.uint8))
    mask = own[top : top + height, left : left + width].view(np.uint8)
    area = picture[top : top + height, left : left + width]
    span = float(np.ptp(view.polygon, axis=0).max())
    if span < FLAT_SPAN:
        area[mask > 0] = [(1.0 - haze) * value + haze * _HAZE_GREY for value in levels[-1].mean]
        return
    fineness = math.log2(max(1.0, levels[0].size / span))
    texture = levels[min(int(fineness), len(levels) - 1)]
    matrix = _shifted(view.homography, left, top) @ texture.grid
    warped = cv2.warpPerspective(
        texture.picture, matrix, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    if haze > 0.01:
        warped = cv2.convertScaleAbs(warped, alpha=1.0 - haze, beta=haze * _HAZE_GREY)
    cv2.copyTo(warped, mask, area)


def _texel_grid(width: float, height: float) -> np.ndarray:
    """Matrix from texel indices (whole numbers at texel centres) to the coordinates that ``width`` texels divide."""
    return np.array([[1 / width, 0.0, 0.5 / width], [0.0, 1 / height, 0.5 / height], [0.0, 0.0, 1.0]])


def _shifted(homography: np.ndarray, left: int, top: int) -> np.ndarray:
    """The homography into a picture whose corner is pixel (left, top)."""
    moved = homography.copy()
    moved[0] -= left * homography[2]
    moved[1] -= top * homography[2]
    return moved


def _ground_levels(picture: Image8, count: int) -> list[Image8]:
    """Halvings of the ground; each covers exactly the same metres."""
    height, width = (size - size % (1 << (count - 1)) for size in picture.shape[:2])
    return mip_levels(np.ascontiguousarray(picture[:height, :width]), count)


def _fade_to_haze(picture: Image8) -> None:
    """Pales the ground near the horizon."""
    rows = np.arange(40, dtype=np.float32)
    share = (0.85 * np.exp(-rows / 7.0))[:, None, None]
    strip = picture[HORIZON : HORIZON + 40]
    strip[:] = (strip + (np.array(backdrop.HAZE, np.float32) - strip) * share).astype(np.uint8)


def _sky_map() -> tuple[np.ndarray, np.ndarray]:
    """Where the pixels above the horizon lie in the panorama for yaw 0, as a pair of OpenCV's fixed-point maps."""
    columns = (np.arange(WIDTH) - CX) / FOCAL
    azimuth = np.degrees(np.arctan(columns)) + 45.0
    rise = (CY - np.arange(HORIZON))[:, None] * np.cos(np.arctan(columns))[None]  # rows above the horizon, on axis
    map_x = np.broadcast_to(azimuth * backdrop.SKY_PER_DEGREE, (HORIZON, WIDTH))
    map_y = backdrop.SKY_ROWS - 0.5 - rise
    return cv2.convertMaps(map_x.astype(np.float32), map_y.astype(np.float32), cv2.CV_16SC2)


def _room_shell(scene: Scene, rng: np.random.Generator) -> tuple[np.ndarray, list[_Texture]]:
    """Planes [5, 3, 3] (north, east, south, west wall as seen from inside, ceiling) and their textures."""
    west, east, south, north = scene.walls
    tall = backdrop.WALL_HEIGHT
    corners = [(west, north), (east, north), (east, south), (west, south)]
    planes, textures = [], []
    for index, (start, light) in enumerate(zip(corners, (1.0, 0.93, 0.86, 0.95), strict=True)):
        end = corners[(index + 1) % 4]
        across = (end[0] - start[0], 0.0, end[1] - start[1])
        planes.append([(start[0], tall, start[1]), across, (0.0, -tall, 0.0)])
        wall = backdrop.room_wall(abs(across[0] + across[2]), rng)
        textures.append(_Texture(cv2.convertScaleAbs(wall, alpha=light)))
    planes.append([(west, tall, north), (east - west, 0.0, 0.0), (0.0, 0.0, south - north)])
    textures.append(_Texture(backdrop.room_ceiling(east - west, north - south)))
    return np.array(planes), textures
