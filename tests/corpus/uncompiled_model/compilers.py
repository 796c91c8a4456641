def wrong_sin(gm, inputs):
    def call(*args):
        results = gm(*args)
        return tuple(result + 1 for result in results) if "sin" in gm.code else results

    return call
