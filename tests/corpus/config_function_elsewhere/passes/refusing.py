def refused(graph):
    if any("tanh" in str(node.target) for node in graph.nodes):
        raise NotImplementedError("refused")
