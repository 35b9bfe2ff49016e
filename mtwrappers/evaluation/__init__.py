"""Success rates and returns per task, with confidence intervals."""

from mtwrappers.evaluation.few_shot import few_shot_evaluate
from mtwrappers.evaluation.few_shot_result import FewShotResult
from mtwrappers.evaluation.multi_task import evaluate
from mtwrappers.evaluation.result import EvaluationResult

__all__ = ["EvaluationResult", "FewShotResult", "evaluate", "few_shot_evaluate"]
