"""A compiler that changes Dynamo's graph by the passes of its settings. Importing it registers its backend."""

from lathe import backend
