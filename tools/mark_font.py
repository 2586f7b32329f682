"""Draws the two brackets around characters that cannot be seen (`⟨U+202E⟩`): `python -m tools.mark_font`.

The vendored fonts do not have them, and a machine without one that does would show boxes. Needs `fonttools` and
`brotli`, which nothing else here does; what it writes is in the package.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

_FILE: Final = Path(__file__).parents[1] / "src" / "twinraven" / "console" / "static" / "marks.woff2"
_WIDTH: Final = 400
_LEFT: Final = ((270, 780), (90, 320), (270, -140), (345, -140), (165, 320), (345, 780))


def main() -> None:
    building: Any = import_module("fontTools.fontBuilder")
    pens: Any = import_module("fontTools.pens.ttGlyphPen")
    right = tuple((_WIDTH - x, y) for x, y in reversed(_LEFT))
    glyphs: dict[str, Any] = {".notdef": pens.TTGlyphPen(None).glyph()}
    for name, corners in (("left", _LEFT), ("right", right)):
        pen = pens.TTGlyphPen(None)
        pen.moveTo(corners[0])
        for corner in corners[1:]:
            pen.lineTo(corner)
        pen.closePath()
        glyphs[name] = pen.glyph()
    made = building.FontBuilder(1000, isTTF=True)
    made.setupGlyphOrder(list(glyphs))
    made.setupCharacterMap({0x27E8: "left", 0x27E9: "right"})
    made.setupGlyf(glyphs)
    made.setupHorizontalMetrics(dict.fromkeys(glyphs, (_WIDTH, 0)))
    made.setupHorizontalHeader(ascent=950, descent=-250)
    made.setupNameTable({"familyName": "TwinRaven Marks", "styleName": "Regular"})
    made.setupOS2(sTypoAscender=950, sTypoDescender=-250, usWinAscent=950, usWinDescent=250)
    made.setupPost()
    made.font.flavor = "woff2"
    # The same bytes whenever it is made.
    made.font["head"].created = made.font["head"].modified = 0
    made.font.recalcTimestamp = False
    made.save(_FILE)
    print(f"{_FILE.name}: {_FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
