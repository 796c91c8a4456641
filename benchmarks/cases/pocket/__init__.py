"""A compiler of somebody's own, outside torch: importing it registers its backends."""

from pocket import backends as backends
