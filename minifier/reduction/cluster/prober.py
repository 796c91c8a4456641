"""The reduction's side of a cluster: a prober that sends candidates to the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from minifier.data.case import Case
from minifier.data.case.store import pickled
from minifier.data.failure import Stage
from minifier.process.channel import Message
from minifier.reduction.cluster.link import Cluster, Lost
from minifier.reduction.probe.children import ChildEnd, Limits
from minifier.reduction.probe.prepared_case import PreparedCase
from minifier.reduction.probe.verdicts import LocalProber, Prober


class ClusterProber:
    """Probes on a cluster; after its loss, in children of this process."""

    def __init__(
        self, cluster: Cluster, prepared: PreparedCase, folder: Path, scratch: Path, say: Callable[[str], None]
    ) -> None:
        self._cluster, self._prepared, self._scratch, self._say = cluster, prepared, scratch, say
        self._recorded: object = None
        self._fallback: Prober | None = None
        self.slots: int | None = cluster.wait()
        indices = [int(device.rpartition(":")[2]) if ":" in device else 0 for device in prepared.case.accelerators]
        try:
            self.slots = cluster.ask(
                load=str(folder), gpus=max(indices, default=-1) + 1, imports_in_child=prepared.imports_in_child
            )["slots"]
        except Lost as lost:
            self._continue_here(lost)

    def probe(self, cases: Sequence[Case], until: Stage, limits: Limits) -> list[ChildEnd]:
        """Return how each candidate ended; stages after `until` are not run."""
        if self._fallback is None:
            try:
                return self._probe_on_cluster(cases, until, limits)
            except Lost as lost:
                self._continue_here(lost)
        assert self._fallback is not None
        return [self._fallback.probe([case], until, limits)[0] for case in cases]

    def _probe_on_cluster(self, cases: Sequence[Case], until: Stage, limits: Limits) -> list[ChildEnd]:
        recorded = self._prepared.recorded
        if recorded is not None and recorded is not self._recorded:
            self._cluster.ask(recorded=str(recorded.folder))
            self._recorded = recorded
        rest = {"until": until.value, "seconds": limits.seconds, "memory": limits.memory}
        answers = self._cluster.ask(cases=[*map(pickled, cases)], rest=rest)["answers"]
        return [_ended(answer, limits) for answer in answers]

    def _continue_here(self, lost: Lost) -> None:
        self._say(f"the cluster {self._cluster.address} cannot be used any more, going on on this machine: {lost}")
        self.slots = 1
        self._fallback = LocalProber(self._prepared, self._scratch)


def _ended(answer: Message, limits: Limits) -> ChildEnd:
    if "ended" in answer:
        fields = answer["ended"]
        return ChildEnd(**{**fields, "loaded": tuple(fields["loaded"])})
    # A candidate that takes down every machine is not tried again, and tells nothing about the failure.
    return ChildEnd(None, limits.seconds, fault=str(answer.get("lost") or answer["error"]))
