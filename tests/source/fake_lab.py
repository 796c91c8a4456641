"""A lab whose texts are judged by a function, without running them."""

from minifier.data.failure import Verdict


class FakeLab:
    """Texts that `accepts` holds for show the failure; the others end with `refusal`. Each is asked once."""

    workers, phase, moved, refusal = 1, "", (), Verdict.PASS

    def __init__(self, accepts, frozen=()):
        self.accepts, self.frozen, self.verdicts, self.asked_texts = accepts, frozen, {}, []
        self.warnings = []

    @property
    def total(self):
        return len(self.verdicts)

    def holds(self, sources):
        self.asked_texts += sources
        assert len(self.asked_texts) < 3000, "the reduction does not end"
        for source in sources:
            if source not in self.verdicts:
                self.verdicts[source] = Verdict.SAME if self.accepts(source) else self.refusal
        return [self.verdicts[source] is Verdict.SAME for source in sources]

    def verdict(self, source):
        return self.verdicts.get(source)

    def warn(self, sentence, error):
        self.warnings.append((sentence, error))
