"""Sprites painted once in numpy, four times oversampled, and a bitmap font. Host only: results are constants."""

import numpy as np

_OVER = 4  # samples per pixel and axis

# 5 x 7 dots, one string per glyph, rows from the top.
_FONT = {
    "0": "01110 10001 10011 10101 11001 10001 01110", "1": "00100 01100 00100 00100 00100 00100 01110",
    "2": "01110 10001 00001 00010 00100 01000 11111", "3": "11111 00010 00100 00010 00001 10001 01110",
    "4": "00010 00110 01010 10010 11111 00010 00010", "5": "11111 10000 11110 00001 00001 10001 01110",
    "6": "00110 01000 10000 11110 10001 10001 01110", "7": "11111 00001 00010 00100 01000 01000 01000",
    "8": "01110 10001 10001 01110 10001 10001 01110", "9": "01110 10001 10001 01111 00001 00010 01100",
    "A": "01110 10001 10001 11111 10001 10001 10001", "B": "11110 10001 10001 11110 10001 10001 11110",
    "C": "01110 10001 10000 10000 10000 10001 01110", "D": "11100 10010 10001 10001 10001 10010 11100",
    "E": "11111 10000 10000 11110 10000 10000 11111", "F": "11111 10000 10000 11110 10000 10000 10000",
    "G": "01110 10001 10000 10111 10001 10001 01111", "H": "10001 10001 10001 11111 10001 10001 10001",
    "I": "01110 00100 00100 00100 00100 00100 01110", "J": "00111 00010 00010 00010 00010 10010 01100",
    "K": "10001 10010 10100 11000 10100 10010 10001", "L": "10000 10000 10000 10000 10000 10000 11111",
    "M": "10001 11011 10101 10101 10001 10001 10001", "N": "10001 10001 11001 10101 10011 10001 10001",
    "O": "01110 10001 10001 10001 10001 10001 01110", "P": "11110 10001 10001 11110 10000 10000 10000",
    "Q": "01110 10001 10001 10001 10101 10010 01101", "R": "11110 10001 10001 11110 10100 10010 10001",
    "S": "01111 10000 10000 01110 00001 00001 11110", "T": "11111 00100 00100 00100 00100 00100 00100",
    "U": "10001 10001 10001 10001 10001 10001 01110", "V": "10001 10001 10001 10001 10001 01010 00100",
    "W": "10001 10001 10001 10101 10101 10101 01010", "X": "10001 10001 01010 00100 01010 10001 10001",
    "Y": "10001 10001 10001 01010 00100 00100 00100", "Z": "11111 00001 00010 00100 01000 10000 11111",
    "+": "00000 00100 00100 11111 00100 00100 00000", "-": "00000 00000 00000 11111 00000 00000 00000",
    "=": "00000 00000 11111 00000 11111 00000 00000", "?": "01110 10001 00001 00010 00100 00000 00100",
    "(": "00010 00100 01000 01000 01000 00100 00010", ")": "01000 00100 00010 00010 00010 00100 01000",
    ",": "00000 00000 00000 00000 01100 00100 01000", ".": "00000 00000 00000 00000 00000 01100 01100",
    ":": "00000 01100 01100 00000 01100 01100 00000", "/": "00000 00001 00010 00100 01000 10000 00000",
    " ": "00000 00000 00000 00000 00000 00000 00000",
}  # fmt: skip
GLYPH_HEIGHT, GLYPH_WIDTH = 7, 5


def glyph(character: str) -> np.ndarray:
    """bool[7, 5]: the dots of one character. Raises KeyError for one that the font lacks."""
    return np.asarray([[dot == "1" for dot in row] for row in _FONT[character].split()])


def string(characters: str) -> np.ndarray:
    """bool[7, 6 len - 1]: a line of glyphs, one dot apart."""
    gap = np.zeros((GLYPH_HEIGHT, 1), bool)
    return np.concatenate([piece for c in characters for piece in (glyph(c), gap)], axis=1)[:, :-1]


class Canvas:
    """A square sprite under construction; lengths and positions (x right, y down) are shares of its side."""

    def __init__(self, side: int, colour):
        self.side = side
        self.pixels = np.empty((side * _OVER, side * _OVER, 3), np.float32)
        self.pixels[:] = colour
        at = (np.arange(side * _OVER) + 0.5) / (side * _OVER)
        self.x, self.y = at[None, :], at[:, None]
        self.dots: list[tuple[np.ndarray, tuple]] = []

    def fill(self, mask: np.ndarray, colour) -> "Canvas":
        """Paint where a bool mask over `x`, `y` holds (any expression of the two)."""
        self.pixels[np.broadcast_to(mask, self.pixels.shape[:2])] = colour
        return self

    def rect(self, x0, y0, x1, y1, colour) -> "Canvas":
        return self.fill((self.x >= x0) & (self.x < x1) & (self.y >= y0) & (self.y < y1), colour)

    def disc(self, x, y, radius, colour) -> "Canvas":
        return self.fill((self.x - x) ** 2 + (self.y - y) ** 2 <= radius**2, colour)

    def line(self, x0, y0, x1, y1, width, colour) -> "Canvas":
        """A segment with round ends."""
        dx, dy = x1 - x0, y1 - y0
        along = np.clip(((self.x - x0) * dx + (self.y - y0) * dy) / max(dx * dx + dy * dy, 1e-9), 0, 1)
        distance = np.hypot(self.x - x0 - along * dx, self.y - y0 - along * dy)
        return self.fill(distance <= width / 2, colour)

    def polygon(self, points, colour) -> "Canvas":
        """A convex polygon, corners in order."""
        sides = [
            (x1 - x0) * (self.y - y0) - (y1 - y0) * (self.x - x0)
            for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1])
        ]
        return self.fill(_one_side(sides), colour)

    def text(self, characters: str, colour) -> "Canvas":
        """A centred line in the largest whole multiple of the font that fits; painted last, never resampled."""
        self.dots.append((string(characters), tuple(colour)))
        return self

    def done(self) -> np.ndarray:
        """u8[side, side, 3]"""
        s = self.side
        out = self.pixels.reshape(s, _OVER, s, _OVER, 3).mean(axis=(1, 3)).round().astype(np.uint8)
        for dots, colour in self.dots:
            scale = min((s - 1) // dots.shape[0], (s - 1) // dots.shape[1]) if s > 7 else 0
            if scale < 1:
                raise ValueError(f"text of {dots.shape[1]} x {dots.shape[0]} dots does not fit into {s} px")
            scale = max(1, scale * 3 // 4)
            big = np.kron(dots, np.ones((scale, scale), bool))
            top, left = (s - big.shape[0]) // 2, (s - big.shape[1]) // 2
            out[top : top + big.shape[0], left : left + big.shape[1]][big] = colour
        return out


def _one_side(sides) -> np.ndarray:
    sides = np.stack(np.broadcast_arrays(*sides))
    return (sides >= 0).all(axis=0) | (sides <= 0).all(axis=0)
