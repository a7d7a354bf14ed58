"""Drafts by the thousand as arrays, scored by tile; only those that can win become schedules."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tune_farm.tuner.interfaces import Proposal, Pruned
from tune_farm.tuner.predictor.lessons import Chapter
from tune_farm.tuner.predictor.machine import Cpu, Gpu
from tune_farm.tuner.predictor.quality import is_chance
from tune_farm.tuner.predictor.tile import Prediction, TilePredictor
from tune_farm.tuner.space.design import DesignSpace, Plot
from tune_farm.tuner.space.sketch import Genes
from tune_farm.tuner.strategy.selection import Policy, split
from tune_farm.tuner.types import Purpose, Record, Task

#: Drafts in a row that TVM refuses or that turn out to be known schedules, after which an ask ends.
_MOST_MISSES = 100
#: Times that drafts are drawn in one ask until half of them keep to the limits: of a GPU's, one in
#: twenty does.
_MOST_ROUNDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftOptions:
    """How drafts are drawn and kept."""

    machine: Cpu | Gpu  # the share that is tuned for
    threads: int = 1
    uses_law: bool = True  # else drafts are kept in the order they were drawn
    drafts: int = 4096  # of each ask, all sketches together
    keep: float = 0.2  # the part of them that may be measured
    explore: float = 0.05  # the part of what is measured that is taken from the rejected
    #: The part of what is measured that is best by prediction; the others are drawn from the kept,
    #: so that a law that is wrong about a task is found out.
    exploit: float = 0.5
    elites: int = 12  # best measured schedules whose variants are drafted, too
    varied: float = 0.5  # the part of the drafts that are their variants
    #: Each sketch learns from its own measurements, what they leave open counts, and some of what
    #: is measured lies beyond what is kept: what recorded GPU spaces settled.
    corrects: bool = False
    memory: tuple[Chapter, ...] = ()  # what earlier runs learned of the law

    @property
    def policy(self) -> Policy:
        """What is kept, and what of it is measured."""
        if self.corrects:
            return Policy(keep=self.keep, exploit=self.exploit)
        plain = {"reach": 1.0, "caution": 0.0, "optimism": 0.0}
        return Policy(keep=self.keep, exploit=self.exploit, **plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """One draft and its seconds, predicted or measured."""

    plot: int
    genes: Genes  # (decisions,) int64
    seconds: float
    is_predicted: bool
    law_seconds: float = 0.0
    doubt: float = 0.0  # standard deviation of log2 of the seconds

    @property
    def key(self) -> tuple[int, bytes]:
        """What makes two drafts the same."""
        return self.plot, self.genes.tobytes()

    def within(self, deviations: float) -> float:
        """The least seconds within so many standard deviations."""
        return float(self.seconds * 2.0 ** (-deviations * self.doubt))


class DraftStrategy:
    """One task's search. All its state follows from the records told and the seed."""

    def __init__(
        self, task: Task, *, predictor: TilePredictor, options: DraftOptions, seed: int
    ) -> None:
        self._task = task
        self._options = options
        self._predictor = predictor
        self._space = DesignSpace(task, seed=seed)
        self._rng = np.random.default_rng(seed)
        self._tried: set[tuple[int, bytes]] = set()  #: keys of drafts that were realized
        self._seen: set[str] = set()  #: ids of candidates proposed or told
        self._told: set[str] = set()  #: ids whose time was learned
        self._proposed: dict[str, _Draft] = {}  #: by id; not told yet
        self._elites: list[_Draft] = []  #: measured, fastest first
        self._predicted: list[float] = []  #: seconds of told candidates, by prediction
        self._measured: list[float] = []  #: and as measured
        self._pruned = Pruned()

    @property
    def pruned(self) -> Pruned:
        """What was dropped so far."""
        return self._pruned

    def propose(self, limit: int) -> Sequence[Proposal]:
        """Return up to `limit` new candidates; none when the space is searched out."""
        drafts, policy = self._draw(), self._policy()
        bound = max(limit, policy.kept(len(drafts)))
        law = np.array([draft.law_seconds for draft in drafts])
        cautious = np.array([draft.within(policy.caution) for draft in drafts])
        rows = split(cautious, bound, law=law, hedge=policy.hedge)
        kept, rejected = ([drafts[row] for row in part] for part in rows)
        keys = {draft.key for draft in kept}
        explored = int(self._rng.binomial(limit, self._options.explore)) if rejected else 0
        exploited = math.ceil((limit - explored) * policy.exploit)
        promising = sorted(kept, key=lambda draft: draft.within(policy.optimism))
        found = self._realize(_spread(promising), exploited, keys)
        near = (kept + rejected)[: round(policy.reach * bound)]
        rest = [near[i] for i in self._rng.permutation(len(near))]
        found += self._realize(rest, limit - explored - len(found), keys)
        if explored:
            order = self._rng.permutation(len(rejected))
            found += self._realize([rejected[i] for i in order], explored, keys)
        if not found:
            # All that was kept is refused or known: the bound is in the way, not the space's end.
            found = self._realize(rejected, limit, {draft.key for draft in rejected})
        self._pruned += Pruned(predicted_slow=sum(draft.is_predicted for draft in rejected))
        return found

    def _policy(self) -> Policy:
        """What is kept; where the law ranks no better than chance, it neither rejects nor leads."""
        if is_chance(self._predicted, self._measured):
            return replace(self._options.policy, keep=1.0, exploit=0.0)
        return self._options.policy

    def tell(self, records: Iterable[Record]) -> None:
        """Learn from records of this task."""
        for record in records:
            candidate = record.candidate
            if candidate.is_untuned or record.purpose is Purpose.FINAL:
                continue
            self._seen.add(candidate.id)
            if candidate.id in self._told or record.seconds is None:
                continue
            self._told.add(candidate.id)
            if record.predicted_seconds is not None:
                self._predicted.append(record.predicted_seconds)
                self._measured.append(record.seconds)
            draft = self._proposed.pop(candidate.id, None)
            located = (draft.plot, draft.genes) if draft else self._space.locate(candidate)
            if located is None:
                continue  # a schedule of another kind: nothing to learn from
            plot, genes = located
            measured = _Draft(plot=plot, genes=genes, seconds=record.seconds, is_predicted=False)
            self._tried.add(measured.key)
            self._elites.append(measured)
            self._predictor.learn(
                self._task.id, self._space.plots[plot], genes[None], record.seconds
            )
        self._elites = sorted(self._elites, key=lambda draft: draft.seconds)[: self._options.elites]

    def _draw(self) -> list[_Draft]:
        """New drafts within the limits, with their predicted seconds; no two the same."""
        found = []
        for index, plot in enumerate(self._space.plots):
            genes = self._within_limits(plot, self._genes_of(index))
            known = self._predict(index, genes)
            each = known or self._guess(len(genes))
            drafts = (
                _Draft(
                    plot=index,
                    genes=row,
                    seconds=float(seconds),
                    is_predicted=known is not None,
                    law_seconds=float(law),
                    doubt=float(doubt),
                )
                for row, seconds, law, doubt in zip(
                    genes, each.seconds, each.law, each.doubt, strict=True
                )
            )
            found += [draft for draft in drafts if draft.key not in self._tried]
        return found

    def _within_limits(self, plot: Plot, genes: Genes) -> Genes:
        """Drafts that keep to the limits, of those given and, where few do, of others drawn."""
        wanted = len(genes) // 2
        found = genes[:0]
        for _ in range(_MOST_ROUNDS):
            genes = np.unique(genes, axis=0)
            fits = self._predictor.fits(plot, genes)
            self._pruned += Pruned(over_limit=int((~fits).sum()))
            found = np.unique(np.concatenate([found, genes[fits]]), axis=0)
            if fits.all() or len(found) >= wanted:
                break
            genes = plot.sketch.draw(2 * wanted, self._rng)
        return found

    def _genes_of(self, plot: int) -> Genes:
        """Genes of one sketch: drawn anew, and varied from the best."""
        sketch = self._space.plots[plot].sketch
        count = self._options.drafts // len(self._space.plots)
        elites = [draft.genes for draft in self._elites if draft.plot == plot]
        if not elites:
            return sketch.draw(count, self._rng)
        varied = round(count * self._options.varied)
        parents = np.stack(elites)
        weights = np.linspace(2.0, 1.0, len(elites))
        mother, father = self._rng.choice(len(elites), size=(2, varied), p=weights / weights.sum())
        children = sketch.cross(parents[mother], parents[father], self._rng)
        children = sketch.vary(children, self._rng)
        again = self._rng.random(varied) < 0.5
        children[again] = sketch.vary(children[again], self._rng)
        return np.concatenate([sketch.draw(count - varied, self._rng), children])

    def _predict(self, plot: int, genes: Genes) -> Prediction | None:
        if not self._options.uses_law:
            return None
        return self._predictor.predict(self._task.id, self._space.plots[plot], genes)

    def _guess(self, count: int) -> Prediction:
        """Where no law covers a sketch: as random as what is known of the task."""
        typical = self._elites[len(self._elites) // 2].seconds if self._elites else 1.0
        seconds = typical * np.exp(self._rng.normal(0.0, 0.5, size=count))
        return Prediction(law=seconds, seconds=seconds, doubt=np.zeros(count))

    def _realize(
        self, drafts: Sequence[_Draft], limit: int, kept: Collection[tuple[int, bytes]]
    ) -> list[Proposal]:
        """The first drafts that become new schedules; an audit, those that were not kept."""
        found: list[Proposal] = []
        misses = 0
        for draft in drafts:
            if len(found) >= limit or misses >= _MOST_MISSES:
                break
            if draft.key in self._tried:
                continue
            self._tried.add(draft.key)
            candidate = self._space.realize(draft.plot, draft.genes)
            if candidate is None or candidate.id in self._seen:
                misses += 1
                self._pruned += Pruned(over_limit=int(candidate is None))
                continue
            misses = 0
            self._seen.add(candidate.id)
            self._proposed[candidate.id] = draft
            known = draft.seconds if draft.is_predicted else None
            purpose = Purpose.SEARCH if draft.key in kept else Purpose.AUDIT
            found.append(Proposal(candidate=candidate, purpose=purpose, predicted_seconds=known))
        return found


def _spread(drafts: Sequence[_Draft]) -> list[_Draft]:
    """The same drafts, those that differ in one gene from a better one moved behind the others.

    Near twins take nearly as long: one of them tells of both.
    """
    leaders: dict[tuple[int, int, bytes], None] = {}
    first, later = [], []
    for draft in drafts:
        marks = [
            (draft.plot, place, np.delete(draft.genes, place).tobytes())
            for place in range(len(draft.genes))
        ]
        if any(mark in leaders for mark in marks):
            later.append(draft)
        else:
            first.append(draft)
            leaders.update(dict.fromkeys(marks))
    return first + later
