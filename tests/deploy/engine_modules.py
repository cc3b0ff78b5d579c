"""The engine simulator's pure modules, which lie together as in its image."""

import sys
from pathlib import Path

ENGINE = Path(__file__).parents[2] / "deploy" / "images" / "engine"
sys.path.insert(0, str(ENGINE))

from core import Cache, Engine, Speed, Token, Work, chain_of  # noqa: E402
from metrics import STYLES, Histogram, Meters, page  # noqa: E402

__all__ = ["STYLES", "Cache", "Engine", "Histogram", "Meters", "Speed", "Token", "Work", "chain_of", "page"]
