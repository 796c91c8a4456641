"""Probes on a Ray cluster: candidates go out as pickled Cases, and the ends of their children come back.

    reduction ─ pipe ─ driver (knows Ray) ─ Ray ─ actor of a slot ─ pipe ─ worker (has the Case) ─ probe, a child

Ray starts threads, which do not survive a fork: no process that forks imports Ray.
"""
