"""Probes on a Ray cluster: the reduction stays where it is, candidates go out as edits, and how they ended comes back.

    reduction ─ pipe ─ driver (knows Ray) ─ Ray ─ actor, one a slot ─ pipe ─ prober (has the Case) ─ probe, a child

Ray runs threads, which no fork survives: it is kept out of every process that forks.
"""
