import torch


class Cache:
    def __init__(self, room):
        self.room, self.entries = room, {}

    def __call__(self, gm, inputs):
        self.entries[str([tuple(value.shape) for value in inputs])] = gm
        if len(self.entries) > self.room:
            raise RuntimeError("no room for another entry")
        return gm.forward


torch._dynamo.register_backend(Cache(2), name="cache")
