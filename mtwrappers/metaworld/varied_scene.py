"""Applies an episode's variation to a scene, after its update and before it is rendered.

A `mujoco.MjvScene` is a list of geoms, lights and cameras, made again for each frame. Only this
list is changed, never a model or simulation, so that a variation cannot affect another environment
or episode.
"""

from __future__ import annotations

import colorsys
import functools
import math
from collections.abc import Iterable
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from mtwrappers.metaworld.variation import HEADLIGHT, REPEATS, TEXTURES, draw_parameters

# The root bodies whose surfaces do not vary: the robot, and the body that moves its hand.
_ROBOT = ("base", "mocap")
# The root bodies of the table and its surroundings.
_TABLE = ("world", "tablelink", "RetainingWall")
_TABLE_MATERIALS = ("table_wood",)  # the rim of a hole in the table, whose body has no name
# Lights turn around the vertical through this point on the table, in metres.
_CENTRE = np.array([0.0, 0.6, 0.0])
_PATTERNS = [(texture, repeats) for texture in TEXTURES[1:] for repeats in REPEATS]
_SIDE, _DARKEST = 64, 150


class VariedScene:
    """Draws the variation of each episode of one model, and applies it to scenes.

    Args:
        model: The `mujoco.MjModel`, which is only read.
        variation: The variation in canonical form.
        cameras: The names of the cameras in use.

    Attributes:
        parameters: The variation of the current episode, plain data; empty before the first.
    """

    def __init__(self, model: Any, variation: str, cameras: Iterable[str]) -> None:
        self._variation = variation
        self._surfaces = surfaces(model)
        materials: dict[str, dict[str, None]] = {"table": {}, "objects": {}}
        for word, material in self._surfaces.values():
            materials[word][material] = None
        # A scene has the lights that are on, in the model's order.
        lights = [HEADLIGHT, *(f"light {k}" for k in np.flatnonzero(model.light_active))]
        self._names = {"light": lights, "camera": list(cameras), **materials}
        self._means = _mean_colours(model)
        self.parameters: dict[str, dict[str, dict[str, Any]]] = {}

    def begin(self, episode: int) -> None:
        """Draws the variation of an episode from its number in a `VariationStream`."""
        self.parameters = draw_parameters(self._variation, episode, self._names)

    def pose(
        self, camera: str, position: NDArray[Any], axes: NDArray[Any], fovy: float
    ) -> tuple[NDArray[Any], NDArray[Any], float]:
        """Applies this episode's variation to the pose of a camera in the model.

        Args:
            camera: The name of the camera.
            position: The position, ``(3,)``, metres.
            axes: The axes as columns, ``(3, 3)``: right, up and backward.
            fovy: The vertical field of view, degrees or radians.

        Returns:
            The new position, axes and field of view.
        """
        if "camera" not in self.parameters:
            return position, axes, fovy
        drawn = self.parameters["camera"][camera]
        turned = axes.T
        for axis, degrees in zip(axes.T, drawn["rotation"], strict=True):
            turned = _turn(turned, axis, degrees)
        position = position + axes @ np.array(drawn["offset"])
        return position, turned.T, fovy * drawn["field_of_view"]

    def apply(self, scene: Any, camera: str, first_pattern: int) -> None:
        """Applies this episode's variation to a scene.

        Args:
            scene: A `mujoco.MjvScene` that was just updated.
            camera: The name of its camera.
            first_pattern: The index of the first of `patterns` among OpenGL's materials.
        """
        if "camera" in self.parameters:
            self._move(scene, camera)
        if "light" in self.parameters:
            _light(scene, self.parameters["light"])
        looks = {word: self.parameters.get(word, {}) for word in ("table", "objects")}
        for k in range(scene.ngeom):
            geom = scene.geoms[k]
            if geom.objtype != mujoco.mjtObj.mjOBJ_GEOM or geom.objid not in self._surfaces:
                continue
            word, material = self._surfaces[geom.objid]
            if (look := looks[word].get(material)) is not None:
                self._paint(geom, look, first_pattern)

    def _move(self, scene: Any, camera: str) -> None:
        """Moves both eyes of the camera, which are rendered as one, and its headlight."""
        left, right = scene.camera
        middle = (left.pos.astype(float) + right.pos) / 2
        forward, up = left.forward.astype(float), left.up.astype(float)
        axes = np.stack([np.cross(forward, up), up, -forward], axis=1)
        before = 2 * math.atan(left.frustum_top / left.frustum_near)
        position, turned, after = self.pose(camera, middle, axes, before)
        zoom = math.tan(after / 2) / math.tan(before / 2)
        for eye in (left, right):
            eye.pos[:] = position + turned @ (axes.T @ (eye.pos - middle))
            eye.forward[:], eye.up[:] = -turned[:, 2], turned[:, 1]
            for name in ("frustum_bottom", "frustum_top", "frustum_center", "frustum_width"):
                setattr(eye, name, getattr(eye, name) * zoom)
        for light in scene.lights[: scene.nlight]:
            if light.headlight:
                light.pos[:], light.dir[:] = position, -turned[:, 2]

    def _paint(self, geom: Any, look: dict[str, Any], first_pattern: int) -> None:
        """Sets the colour and texture of a geom; its transparency is kept."""
        colour = geom.rgba[:3].tolist()
        if look["texture"] != "own":
            # A pattern is grey, so the surface takes the mean colour of its texture, such as wood.
            mean = self._means.get(geom.matid)
            colour = colour if mean is None else [a * b for a, b in zip(colour, mean, strict=True)]
            geom.matid = first_pattern + _PATTERNS.index((look["texture"], look["repeats"]))
        geom.rgba[:3] = varied_colour(colour, look)


def surfaces(model: Any) -> dict[int, tuple[str, str]]:
    """The geoms that may vary: ``"table"`` or ``"objects"``, and the name of the material.

    A geom without a material is named after its root body. The floor and the walls around the table
    belong to the table. The robot and the sites, such as the goal, are left out.
    """
    drawn = mujoco.MjvOption().geomgroup
    found = {}
    for k in range(model.ngeom):
        root = model.body(model.body_rootid[model.geom_bodyid[k]]).name
        if root in _ROBOT or not drawn[model.geom_group[k]]:
            continue
        material = root
        if model.geom_matid[k] >= 0:
            material = model.mat(model.geom_matid[k]).name
        of_table = root in _TABLE or material in _TABLE_MATERIALS
        found[k] = "table" if of_table else "objects", material
    return found


def varied_colour(colour: Iterable[float], look: dict[str, Any]) -> list[float]:
    """Applies the variation of a surface to a colour, three numbers in [0, 1]."""
    hue, saturation, value = colorsys.rgb_to_hsv(*colour)
    varied = colorsys.hsv_to_rgb(
        (hue + look["hue"] / 360) % 1, saturation * look["saturation"], value * look["brightness"]
    )
    return [min(1.0, part * tint) for part, tint in zip(varied, look["tint"], strict=True)]


@functools.cache
def patterns() -> tuple[NDArray[np.uint8], ...]:
    """Grey patterns, ``(64, 64)``: every texture except ``"own"``, with every number of repeats.

    They are computed from integers, so they are the same on every machine.
    """
    y, x = np.mgrid[:_SIDE, :_SIDE]
    grey = {"checker": _checker, "gradient": _gradient, "noise": _noise}
    levels = [grey[texture](x, y, _SIDE // repeats) for texture, repeats in _PATTERNS]
    return tuple((_DARKEST + level * (255 - _DARKEST) // 256).astype(np.uint8) for level in levels)


# Levels in [0, 255] at places ``x`` and ``y``, in pixels, of a pattern that repeats after ``size``.


def _checker(x: Any, y: Any, size: int) -> Any:
    return 255 * ((2 * x // size + 2 * y // size) % 2)


def _gradient(x: Any, y: Any, size: int) -> Any:
    return abs((x + y) % (2 * size) - size) * 255 // size


def _noise(x: Any, y: Any, size: int) -> Any:
    def level(column: Any, row: Any) -> Any:
        mixed = (column % 16 * 374761393 + row % 16 * 668265263) % 2**32
        return (mixed ^ mixed >> 13) * 1274126177 % 2**32 >> 24

    size //= 2
    (column, right), (row, down) = divmod(x, size), divmod(y, size)
    top = level(column, row) * (size - right) + level(column + 1, row) * right
    below = level(column, row + 1) * (size - right) + level(column + 1, row + 1) * right
    return (top * (size - down) + below * down) // size**2


def _mean_colours(model: Any) -> dict[int, list[float]]:
    """The mean colour of each material's texture, three numbers in [0, 1], by its index."""
    found = {}
    for material in range(model.nmat):
        texture = model.mat_texid[material][mujoco.mjtTextureRole.mjTEXROLE_RGB]
        if texture >= 0:
            channels, start = int(model.tex_nchannel[texture]), model.tex_adr[texture]
            size = model.tex_height[texture] * model.tex_width[texture] * channels
            pixels = model.tex_data[start : start + size].reshape(-1, channels)
            colours = pixels[:, :3] if channels > 2 else pixels[:, [0, 0, 0]]  # or grey
            found[material] = (colours.sum(axis=0) / len(pixels) / 255).tolist()
    return found


def _light(scene: Any, drawn: dict[str, dict[str, Any]]) -> None:
    """Turns the lights around the middle of the table, and changes their colours."""
    own = (name for name in drawn if name != HEADLIGHT)
    for light in scene.lights[: scene.nlight]:
        look = drawn[HEADLIGHT if light.headlight else next(own)]
        colour = np.array(look["colour"])
        light.ambient[:] = np.minimum(light.ambient * look["ambient"] * colour, 1)
        light.diffuse[:] = np.minimum(light.diffuse * look["diffuse"] * colour, 1)
        light.specular[:] = np.minimum(light.specular * look["specular"] * colour, 1)
        if light.headlight:
            continue
        both = np.stack([light.pos - _CENTRE, light.dir])
        both = _turn(both, np.array([0.0, 0.0, 1.0]), look["azimuth"])
        side = np.array([both[1][1], -both[1][0], 0.0])  # level, and across the light
        if (length := math.hypot(*side)) > 1e-6:
            both = _turn(both, side / length, look["elevation"])
        light.pos[:], light.dir[:] = both[0] + _CENTRE, both[1]


def _turn(vectors: NDArray[Any], axis: NDArray[Any], degrees: float) -> NDArray[Any]:
    """Vectors ``(n, 3)`` turned around an axis of length 1 (Rodrigues' formula)."""
    angle = math.radians(degrees)
    along = np.outer(vectors @ axis, axis)
    across = np.cross(axis, vectors)
    turned: NDArray[Any] = along + (vectors - along) * math.cos(angle) + across * math.sin(angle)
    return turned
