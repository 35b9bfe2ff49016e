"""Evaluation: protocols, results with confidence intervals, comparisons and verification."""

from mtwrappers.evaluation.comparison import Comparison, ScoreDifference, compare
from mtwrappers.evaluation.description import Description
from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.evaluating import evaluate, few_shot_evaluate
from mtwrappers.evaluation.evidence import EvidenceError
from mtwrappers.evaluation.learning_curves import Curves, curves
from mtwrappers.evaluation.loop import Observer
from mtwrappers.evaluation.method_scores import Score, Scores, scores
from mtwrappers.evaluation.plan import Design, PlannedEpisode
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.published import protocols
from mtwrappers.evaluation.references import reference
from mtwrappers.evaluation.remake import Environments, VerificationError
from mtwrappers.evaluation.result import EvaluationResult, load_results, save_results
from mtwrappers.evaluation.runs import IncomparableError
from mtwrappers.evaluation.verification import Verification, verify

__all__ = [
    "Comparison",
    "Curves",
    "Description",
    "Design",
    "Environments",
    "Episode",
    "EvaluationResult",
    "EvidenceError",
    "IncomparableError",
    "Observer",
    "PlannedEpisode",
    "Protocol",
    "Score",
    "ScoreDifference",
    "Scores",
    "Verification",
    "VerificationError",
    "compare",
    "curves",
    "evaluate",
    "few_shot_evaluate",
    "load_results",
    "protocols",
    "reference",
    "save_results",
    "scores",
    "verify",
]
