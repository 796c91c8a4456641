"""Settings by environment variables."""

import os

SECONDS_OF_COMPILING = float(os.environ.get("FARCODE_SECONDS", "0.06"))
