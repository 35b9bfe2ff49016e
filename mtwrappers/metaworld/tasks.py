"""Meta-World's tasks: their data, the benchmarks that list them, and goals drawn anew.

A benchmark has the same tasks as Meta-World's for the same seed.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, TypeGuard, cast

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from mtwrappers.common import seeding
from mtwrappers.common.checks import check_choice, positive
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.types import State
from mtwrappers.core.tasks import Description, TaskList, Tasks
from mtwrappers.metaworld.interfaces import Benchmark, Classes, SawyerClass, Task, TaskData
from mtwrappers.metaworld.upstream import all_classes, classes_by_name, metaworld
from mtwrappers.state.identity import keep_arguments
from mtwrappers.state.plain_data import set_generator


def encode(name: str, cls: SawyerClass, rand_vec: NDArray[np.float64], hidden: bool) -> Task:
    """Makes a `metaworld.Task`, byte for byte as Meta-World does."""
    data = {"rand_vec": rand_vec, "env_cls": cls, "partially_observable": hidden}
    task: Task = metaworld().Task(env_name=name, data=pickle.dumps(data))
    return task


def is_task(value: object) -> TypeGuard[Task]:
    """Whether ``value`` is a `metaworld.Task`; does not import Meta-World."""
    cls = type(value)
    return cls.__name__ == "Task" and cls.__module__.partition(".")[0] == "metaworld"


def check_task(task: object) -> Task:
    """Returns ``task``, or raises `TypeError` unless it is a `metaworld.Task`."""
    if not is_task(task):
        raise TypeError(f"expected a metaworld.Task, got {task!r}")
    return task


def decode(task: object) -> TaskData:
    """The data of a task.

    Raises:
        TypeError: If ``task`` is not a `metaworld.Task`, whose data alone is unpickled.
    """
    data: TaskData = dict(pickle.loads(check_task(task).data))  # type: ignore[assignment]
    return data


@functools.lru_cache(maxsize=10_000)
def check_task_vector(task: Task) -> None:
    """Raises `ValueError` for a random vector that Meta-World's reset would redraw forever."""
    from mtwrappers.metaworld.blueprint import check_vector

    data = decode(task)
    vector = np.array(data["rand_vec"], dtype=np.float64)
    check_vector(data["env_cls"], vector, f"the random vector of {task.env_name}", bounded=False)


def digest(tasks: Iterable[Task]) -> str:
    """The digest of a list of tasks, the same on every machine."""
    code = hashlib.sha256()
    for task in tasks:
        data = decode(task)
        code.update(f"{task.env_name} {data['partially_observable']} ".encode())
        code.update(np.asarray(data["rand_vec"], dtype="<f8").tobytes())
    return code.hexdigest()[:16]


def with_vector(task: Task, vector: ArrayLike) -> Task:
    """The same task with another random vector."""
    data = decode(task)
    return encode(task.env_name, data["env_cls"], np.array(vector), data["partially_observable"])


def to_plain(task: Task) -> list[object]:
    """Returns a task as JSON values and an array.

    Raises:
        TypeError: If the task's class is not Meta-World's own.
    """
    data = decode(task)
    if data["env_cls"] is not all_classes().get(task.env_name):
        raise TypeError(f"{task.env_name!r} is {data['env_cls']}, not a class of Meta-World")
    return [task.env_name, np.array(data["rand_vec"]), bool(data["partially_observable"])]


def from_plain(plain: Sequence[object]) -> Task:
    """Reverses `to_plain`, or raises `ValueError`."""
    name, rand_vec, hidden = plain
    if not isinstance(name, str) or name not in all_classes():
        raise ValueError(f"expected a class of Meta-World, got {name!r}")
    if not (isinstance(rand_vec, np.ndarray) and rand_vec.ndim == 1 and rand_vec.dtype.kind == "f"):
        raise ValueError(f"expected a random vector of {name}, got {rand_vec!r}")
    if not isinstance(hidden, bool):
        raise ValueError(f"expected True or False for the hidden goal of {name}, got {hidden!r}")
    task = encode(name, all_classes()[name], rand_vec, hidden)
    check_task_vector(task)
    return task


Kind: TypeAlias = Literal["train", "test"]

# These hide their goals and have a test split.
META_LEARNING = ("ML1", "ML10", "ML25", "ML45", "CustomML")
BENCHMARKS = ("MT1", "MT10", "MT25", "MT50", "CustomMT", *META_LEARNING)
DEFAULT_CLASS = "reach-v3"
# The number of goals per class in Meta-World's lists.
NUM_GOALS = 50
# The number of classes of each benchmark with a fixed list of classes.
NUM_CLASSES: dict[str, dict[Kind, int]] = {
    "MT1": {"train": 1},
    "MT10": {"train": 10},
    "MT25": {"train": 25},
    "MT50": {"train": 50},
    "ML1": {"train": 1, "test": 1},
    "ML10": {"train": 10, "test": 5},
    "ML25": {"train": 25, "test": 5},
    "ML45": {"train": 45, "test": 5},
}
# The arguments that name the classes of the other benchmarks.
CLASS_ARGUMENTS = {
    **dict.fromkeys(("MT1", "ML1"), ("env_name",)),
    "CustomMT": ("train_classes",),
    "CustomML": ("train_classes", "test_classes"),
}
# The benchmarks with the single class ``env_name``.
ONE_CLASS = tuple(name for name, arguments in CLASS_ARGUMENTS.items() if "env_name" in arguments)


class BenchmarkOptions(TypedDict, total=False):
    """The arguments of `make_benchmark` that others pass on; ``seed`` has another meaning there."""

    env_name: str | None
    train_classes: Sequence[str] | None
    test_classes: Sequence[str] | None
    num_goals: int


BENCHMARK_OPTIONS = ("env_name", "train_classes", "test_classes", "num_goals")


def make_benchmark(
    name: str,
    *,
    env_name: str | None = None,
    train_classes: Sequence[str] | None = None,
    test_classes: Sequence[str] | None = None,
    seed: int | None = 0,
    num_goals: int = NUM_GOALS,
) -> Benchmark:
    """Makes a `metaworld.Benchmark` without compiling a model.

    The tasks are byte for byte those of ``metaworld.MT10(seed=seed)`` and so on: all of them, or
    the first ``num_goals`` of each class. The global random state is neither read nor changed.

    Args:
        name: One of `BENCHMARKS`.
        env_name: The class of MT1 and ML1, ``"reach-v3"`` by default.
        train_classes: The classes of CustomMT and CustomML.
        test_classes: The test classes of CustomML, none of them a train class.
        seed: Determines the goals; ``None`` takes fresh entropy.
        num_goals: The number of tasks per class, the first of Meta-World's list of 50. A longer
            list equals Meta-World's own for the same ``num_goals``.

    Raises:
        TypeError: If the seed is not an integer, or the classes are not a list.
        ValueError: If a name is unknown, an argument does not belong to the benchmark, a number is
            out of range, a class has fewer than ``num_goals`` different goals, or a class is not
            Meta-World's own: pass a `metaworld.Benchmark` with its tasks where one is taken.
        DependencyNotInstalled: If Meta-World is not installed.

    >>> from mtwrappers.metaworld import make_benchmark
    >>> benchmark = make_benchmark("MT1", env_name="push-v3", num_goals=3)
    >>> len(benchmark.train_tasks), benchmark.train_tasks[0].env_name
    (3, 'push-v3')
    """
    arguments = {**locals()}
    if not isinstance(name, str) or name not in BENCHMARKS:
        hint = did_you_mean(name, BENCHMARKS) or f"expected one of {list(BENCHMARKS)}"
        raise ValueError(f"unknown benchmark {name!r}; {hint}")
    positive(num_goals, "num_goals")
    goals_seed = seeding.fresh_seed() if seed is None else seeding.check_seed(seed)
    if goals_seed >= 2**32 - 1:  # NumPy's limit, and ML1 uses the next seed too
        raise ValueError(f"a benchmark's seed must be below 2**32 - 1, got {goals_seed}")
    train, test = _find_classes(name, env_name, train_classes, test_classes)
    hidden = name in META_LEARNING
    # ML1 tests on other goals of the train class; the others on other classes.
    test_seed = goals_seed + 1 if name == "ML1" else goals_seed

    from mtwrappers.metaworld.blueprint import CustomMT

    # Its constructor is not called, because it compiles every class's model to draw goals.
    benchmark_type = CustomMT if name == "CustomMT" else getattr(metaworld(), name)
    benchmark: Any = benchmark_type.__new__(benchmark_type)
    keep_arguments(benchmark, {**arguments, "seed": goals_seed})
    benchmark._train_classes, benchmark._test_classes = OrderedDict(train), OrderedDict(test)
    benchmark._train_tasks = list(_first_tasks(train, hidden, goals_seed, int(num_goals)))
    benchmark._test_tasks = list(_first_tasks(test, hidden, test_seed, int(num_goals)))
    return cast(Benchmark, benchmark)


def class_names(
    benchmark: str, kind: Kind = "train", env_name: str | None = None
) -> tuple[str, ...]:
    """The names of a benchmark's classes in order, without drawing goals."""
    return tuple(_find_classes(benchmark, env_name, None, None)[kind == "test"])


def share_out(
    num_classes: int, num_groups: int, num_goals: int, continuous: bool
) -> list[tuple[int, range]]:
    """Distributes classes to task groups as evenly as possible; returns (class, task states).

    The groups of a class share its goals. With continuous goals, a class is one task state.
    """
    # Sorted, so that the groups of a class follow each other.
    classes = sorted(group % num_classes for group in range(num_groups))
    shares = []
    for group, index in enumerate(classes):
        if continuous:
            shares.append((index, range(index, index + 1)))
            continue
        first_group, num_groups_of_class = classes.index(index), classes.count(index)
        goals_of_class = range(num_goals * index, num_goals * (index + 1))
        shares.append((index, goals_of_class[group - first_group :: num_groups_of_class]))
    return shares


@dataclass(frozen=True)
class Splits:
    """The train tasks of a benchmark, its test tasks, or both.

    Attributes:
        classes: Their classes by name.
        tasks: The tasks.
        kinds: The kind of each task.
    """

    classes: Classes
    tasks: list[Task]
    kinds: list[Kind]

    def first_of_each_class(self) -> Splits:
        """The splits with the first task of each kind and class only."""
        first_tasks: dict[tuple[Kind, str], Task] = {}
        for task, kind in zip(self.tasks, self.kinds, strict=True):
            first_tasks.setdefault((kind, task.env_name), task)
        kinds = [kind for kind, _ in first_tasks]
        return Splits(self.classes, list(first_tasks.values()), kinds)


def read_splits(benchmark: object, *kinds: Kind) -> Splits:
    """Reads the splits of a benchmark with tasks of these kinds.

    Raises:
        ValueError: If ``benchmark`` is not a benchmark, or its splits have no tasks.
        TypeError: If one of its tasks is not a `metaworld.Task`.
    """
    if not isinstance(benchmark, metaworld().Benchmark):
        raise ValueError(
            f"benchmark must be a metaworld.Benchmark or the name of one, got {benchmark!r}"
        )
    classes: Classes = {}
    tasks: list[Task] = []
    task_kinds: list[Kind] = []
    for kind in kinds:
        check_choice(kind, ("train", "test"), "kind")
        split_tasks = [check_task(task) for task in getattr(benchmark, f"{kind}_tasks")]
        if split_tasks:
            classes.update(getattr(benchmark, f"{kind}_classes"))
            tasks += split_tasks
            task_kinds += [kind] * len(split_tasks)
    if not tasks:
        raise ValueError(f"{type(benchmark).__name__} has no {' or '.join(kinds)} tasks")
    return Splits(classes, tasks, task_kinds)


def _find_classes(
    name: str,
    env_name: str | None,
    train_classes: Sequence[str] | None,
    test_classes: Sequence[str] | None,
) -> tuple[Classes, Classes]:
    """The train and the test classes by name, in order."""
    arguments = {"env_name": env_name, "train_classes": train_classes, "test_classes": test_classes}
    needed = CLASS_ARGUMENTS.get(name, ())
    for argument, value in arguments.items():
        if value is not None and argument not in needed:
            benchmarks = [
                benchmark for benchmark, names in CLASS_ARGUMENTS.items() if argument in names
            ]
            raise ValueError(
                f"{name} takes no {argument}, got {value!r}; it is for {' and '.join(benchmarks)}"
            )
        if value is None and argument in needed and argument != "env_name":
            raise ValueError(f"{name} needs {argument}, a list of class names")
    if "env_name" in needed:
        classes = classes_by_name([DEFAULT_CLASS if env_name is None else env_name], "env_name")
        return classes, classes if name == "ML1" else {}
    if needed:
        assert train_classes is not None
        train = classes_by_name(train_classes, "train_classes")
        test = {} if test_classes is None else classes_by_name(test_classes, "test_classes")
        if both := sorted(train.keys() & test):
            raise ValueError(f"test classes must not be train classes, got {both} in both")
        return train, test
    table = getattr(metaworld().env_dict, f"{name}_V3")
    if name in META_LEARNING:
        return classes_by_name([*table["train"]]), classes_by_name([*table["test"]])
    return classes_by_name([*table]), {}


def _first_tasks(classes: Classes, hidden: bool, seed: int, num_goals: int) -> Iterator[Task]:
    """The first ``num_goals`` tasks of each of these classes, class by class."""
    length = max(num_goals, NUM_GOALS)
    all_tasks = _list_tasks(tuple(classes.items()), hidden, seed, length)
    for first in range(0, len(all_tasks), length):
        yield from all_tasks[first : first + num_goals]


@functools.lru_cache(maxsize=8)
def _list_tasks(
    classes: tuple[tuple[str, SawyerClass], ...], hidden: bool, seed: int, length: int
) -> tuple[Task, ...]:
    """The tasks of these classes, ``length`` of each."""
    if not classes:
        return ()
    from mtwrappers.metaworld.blueprint import draw_vectors

    # The stream of np.random after np.random.seed(seed), in a generator of its own.
    rng = np.random.RandomState(seed)
    tasks = []
    for name, cls in classes:
        goals = draw_vectors(cls, length, rng)
        if len({goal.tobytes() for goal in goals}) != length:
            raise ValueError(f"{name} has fewer than {length} different goals for seed {seed}")
        tasks += [encode(name, cls, goal, hidden) for goal in goals]
    return tuple(tasks)


Goals: TypeAlias = Literal["list", "continuous"]
# A class by its index, and its random vector.
ClassAndVector: TypeAlias = tuple[int, tuple[float, ...]]


def check_goals(goals: Goals, benchmark: object, num_goals: int | None) -> bool:
    """Whether goals are continuous.

    Args:
        goals: The argument of an environment.
        benchmark: The benchmark or its name.
        num_goals: The number of goals per class, if it was given.

    Raises:
        ValueError: If ``goals`` is something else, or conflicts with the other arguments.
    """
    if check_choice(goals, ("list", "continuous"), "goals") == "list":
        return False
    if benchmark is None:
        raise ValueError("goals='continuous' needs a benchmark, got None")
    if num_goals not in (None, NUM_GOALS):
        raise ValueError(f"num_goals is for goals='list', got {num_goals} with 'continuous'")
    return True


class ContinuousGoals:
    """A stream of random vectors of classes, seeded by resets.

    A vector, ``(3,)`` or ``(6,)``, is what Meta-World's reset draws: the goal, or an object's start
    position and the goal. The first vector after `seed` equals the one that a new environment of
    the class draws in ``reset`` after Meta-World's ``seed(s)``, with ``seeded_rand_vec`` set.

    Args:
        tasks: A `metaworld.Task` of each class; its goal is ignored.
        seed: Determines the vectors, until `seed` is called.
    """

    def __init__(self, tasks: Sequence[Task], seed: int) -> None:
        self._tasks = tasks
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Begins the stream of ``seed``."""
        self._seed = seeding.check_seed(seed)
        self._stream = seeding.goal_generator(self._seed)

    def draw(self, class_index: int, stream: Generator | None = None) -> NDArray[np.float64]:
        """Draws the next vector of a class, from ``stream`` if it is given."""
        from mtwrappers.metaworld.blueprint import draw_vectors

        rng = self._stream if stream is None else stream
        [vector] = draw_vectors(self._find_class(class_index), 1, rng)
        return vector

    def check(self, class_index: int, vector: object, name: str) -> tuple[float, ...]:
        """Returns a vector that Meta-World might draw for a class, or raises `ValueError`."""
        from mtwrappers.metaworld.blueprint import check_vector

        try:
            array = np.array(cast(ArrayLike, vector), dtype=np.float64)
        except (TypeError, ValueError):
            array = np.empty(0)
        if array.ndim != 1 or not array.size or not np.isfinite(array).all():
            raise ValueError(f"{name} must be 3 or 6 finite numbers, got {vector!r}")
        class_name = self._tasks[class_index].env_name
        check_vector(self._find_class(class_index), array, f"{name} of {class_name}")
        return tuple(array.tolist())

    def get_state(self) -> State:
        """The state of the stream of vectors, ready for JSON."""
        return {"seed": self._seed, "state": dict(self._stream.bit_generator.state)}

    def set_state(self, state: State) -> None:
        """Restores the state that `get_state` returned."""
        self.seed(state["seed"])
        set_generator(self._stream, state["state"])

    def _find_class(self, class_index: int) -> SawyerClass:
        return decode(self._tasks[class_index])["env_cls"]


class ContinuousTasks(Tasks["int | ClassAndVector"]):
    """A list of tasks with one entry per class, and a new goal at every draw.

    A task state that was drawn or set is a class's index with its random vector. The index alone
    stands for the class with the next goal of the stream.

    Args:
        goals: The stream of goals.
        classes: The task of each class, whose goal is ignored.
    """

    def __init__(self, goals: ContinuousGoals, classes: TaskList) -> None:
        self._goals, self._classes = goals, classes
        self.space, self.names, self.history = classes.space, classes.names, classes.history
        self.ids, self.states = classes.ids, classes.states

    def first(self) -> ClassAndVector:
        """The first class, with the next goal."""
        return self.draw_missing(self._classes.first())

    def draw(self, rng: Generator) -> ClassAndVector:
        """The class that the selection strategy draws, with the next goal."""
        return self.draw_missing(self._classes.draw(rng))

    def draw_missing(
        self, task_state: int | ClassAndVector, stream: Generator | None = None
    ) -> ClassAndVector:
        """Draws the goal of a task state that is only an index, from ``stream`` if it is given."""
        if isinstance(task_state, tuple):
            return task_state
        return task_state, tuple(self._goals.draw(task_state, stream).tolist())

    def check(self, task_state: object, name: str) -> int | ClassAndVector:
        """Returns a class's index, with a random vector if it came with one."""
        if not isinstance(task_state, (tuple, list)):
            return self._classes.check(task_state, name)
        if len(task_state) != 2:
            raise ValueError(
                f"{name} must be the index of a class, or (index, random vector), got {task_state}"
            )
        class_index = self._classes.check(task_state[0], f"the class of {name}")
        vector = self._goals.check(class_index, task_state[1], f"the random vector of {name}")
        return class_index, vector

    def describe(self, task_state: int | ClassAndVector) -> Description:
        """The description of the class of a task state."""
        return self._classes.describe(_class_index(task_state))

    def restart(self) -> None:
        """Makes the selection strategy start over; goals have a stream of their own."""
        self._classes.restart()

    def begin_episode(self, task_state: int | ClassAndVector) -> None:
        """Begins an episode of the task's class in the history, if there is one."""
        self._classes.begin_episode(_class_index(task_state))

    def get_state(self) -> State:
        """The state of the selection strategy and its history, ready for JSON."""
        return self._classes.get_state()

    def set_state(self, state: State) -> None:
        """Restores the state that `get_state` returned."""
        self._classes.set_state(state)


def _class_index(task_state: int | ClassAndVector) -> int:
    return task_state[0] if isinstance(task_state, tuple) else task_state
