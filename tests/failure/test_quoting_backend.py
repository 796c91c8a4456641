"""A compiler that quotes the user's code in its messages: each candidate and the repro have other code."""

FUSER = """
    import torch
    import torch.nn.functional as F


    def fuse(gm, inputs):
        for node in list(gm.graph.nodes):
            if node.target is F.gelu and node.args[0].target is torch._C._nn.linear:
                linear = node.args[0]
                with gm.graph.inserting_before(node):
                    fused = gm.graph.call_function(lambda x, w: F.gelu(F.linear(x, w)), linear.args)
                node.replace_all_uses_with(fused)
                gm.graph.erase_node(node)
                gm.graph.erase_node(linear)
        gm.recompile()
        return gm.forward
"""
GATED = """
    import torch
    import torch.nn.functional as F
    from fuser import fuse


    def gated(x, w):
        hidden = F.linear(torch.relu(x), w)
        return F.gelu(hidden) * torch.sigmoid(hidden) + x


    torch.compile(gated, backend=fuse)(torch.randn(2, 4), torch.randn(4, 4))
"""


def test_a_message_of_nodes_that_have_other_names_in_the_repro(project, soak):
    project.write(FUSER, "fuser.py")
    done = project.run(GATED)
    assert done.code == 0, done.stderr
    assert done.ops == (6, 3) and "{sigmoid: None}" in done.stderr
    assert "torch.compile(fn, backend=fuse)" in done.repro and not (done.out / "attempts").exists()
