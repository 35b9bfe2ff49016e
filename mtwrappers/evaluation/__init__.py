"""Success rates and returns per task, with confidence intervals."""

from mtwrappers.evaluation.claim import VerificationError
from mtwrappers.evaluation.compare import IncomparableError, compare
from mtwrappers.evaluation.comparison import Comparison, Difference
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
    "Difference",
    "Episode",
    "EvaluationResult",
    "EvidenceError",
    "FewShotResult",
    "IncomparableError",
    "Observer",
    "PlannedEpisode",
    "Protocol",
    "Provenance",
    "Verification",
    "VerificationError",
    "compare",
    "evaluate",
    "few_shot_evaluate",
    "protocols",
    "verify",
]
