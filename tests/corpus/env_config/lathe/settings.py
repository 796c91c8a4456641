"""What the compiler does: the defaults, a JSON file on top, an environment variable on top of that."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Settings:
    effort: int = 1
    passes: list[str] = field(default_factory=list)


def read():
    path = os.environ.get("LATHE_SETTINGS")
    settings = Settings(**json.loads(Path(path).read_text())) if path else Settings()
    settings.effort = int(os.environ.get("LATHE_EFFORT", settings.effort))
    return settings


SETTINGS = read()
