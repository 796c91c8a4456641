"""The reduction's side of a cluster: a prober whose candidates go elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from minifier.case import Case
from minifier.case.edit import edit_from
from minifier.case.store import load
from minifier.cluster.link import Cluster, Lost
from minifier.cluster.messages import Message
from minifier.failure import Stage
from minifier.probe.children import ChildEnd
from minifier.probe.life import Limits
from minifier.probe.prepared_case import PreparedCase
from minifier.probe.prober import LocalProber, Prober


class ClusterProber:
    """Probes on a cluster; where that is lost, in children of this process."""

    def __init__(
        self, cluster: Cluster, bench: PreparedCase, folder: Path, scratch: Path, say: Callable[[str], None]
    ) -> None:
        self._cluster, self._bench, self._scratch, self._say = cluster, bench, scratch, say
        self._base = load(folder)  # as the other side has it
        self._recorded: object = None
        self._instead: Prober | None = None
        self.slots: int | None = cluster.wait()
        places = [int(device.rpartition(":")[2]) if ":" in device else 0 for device in bench.case.devices - {"cpu"}]
        try:
            self.slots = cluster.ask(load=str(folder), gpus=max(places, default=-1) + 1)["slots"]
        except Lost as lost:
            self._go_on_here(lost)

    def probe(self, cases: Sequence[Case], until: Stage, limits: Limits) -> list[ChildEnd]:
        """How each candidate ended, wherever that was."""
        if self._instead is None:
            try:
                return self._elsewhere(cases, until, limits)
            except Lost as lost:
                self._go_on_here(lost)
        assert self._instead is not None
        return [self._instead.probe([case], until, limits)[0] for case in cases]

    def _elsewhere(self, cases: Sequence[Case], until: Stage, limits: Limits) -> list[ChildEnd]:
        recorded = self._bench.recorded
        if recorded is not None and recorded is not self._recorded:
            self._cluster.ask(recorded=str(recorded.folder))
            self._recorded = recorded
        rest = {"until": until.value, "seconds": limits.seconds, "memory": limits.memory}
        edits = [edit_from(self._base, case) for case in cases]
        answers = self._cluster.ask(edits=edits, rest=rest)["answers"]
        return [_ended(answer, limits) for answer in answers]

    def _go_on_here(self, lost: Lost) -> None:
        self._say(f"the cluster {self._cluster.address} cannot be used any more, going on on this machine: {lost}")
        self.slots = 1
        self._instead = LocalProber(self._bench, self._scratch)


def _ended(answer: Message, limits: Limits) -> ChildEnd:
    if "ended" in answer:
        found = answer["ended"]
        return ChildEnd(**{**found, "loaded": tuple(found["loaded"])})
    # What takes down every machine that tries it is not tried again, and says nothing about the failure.
    return ChildEnd(None, limits.seconds, fault=str(answer.get("lost") or answer["error"]))
