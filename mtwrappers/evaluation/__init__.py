"""Success rates and returns per task, with confidence intervals."""

from mtwrappers.evaluation.claim import VerificationError
from mtwrappers.evaluation.compare import IncomparableError, compare
from mtwrappers.evaluation.comparison import Comparison, Difference
from mtwrappers.evaluation.continual import (
    PhaseEvaluator,
    continual_evaluate,
    single_task_baselines,
)
from mtwrappers.evaluation.continual_result import ContinualResult
from mtwrappers.evaluation.episodes import Episode, Observer
from mtwrappers.evaluation.evaluate import evaluate
from mtwrappers.evaluation.evidence import EvidenceError
from mtwrappers.evaluation.few_shot import FewShotResult, few_shot_evaluate
from mtwrappers.evaluation.plan import PlannedEpisode
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.provenance import Provenance
from mtwrappers.evaluation.published import protocols
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.evaluation.verify import Verification, verify

__all__ = [
    "Comparison",
    "ContinualResult",
    "Difference",
    "Episode",
    "EvaluationResult",
    "EvidenceError",
    "FewShotResult",
    "IncomparableError",
    "Observer",
    "PhaseEvaluator",
    "PlannedEpisode",
    "Protocol",
    "Provenance",
    "Verification",
    "VerificationError",
    "compare",
    "continual_evaluate",
    "evaluate",
    "few_shot_evaluate",
    "protocols",
    "single_task_baselines",
    "verify",
]
