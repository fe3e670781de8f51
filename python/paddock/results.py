"""What plugins return.

Nothing is validated where it is built: the runtime must see what the plugin really returned, and
say so. A plain dict of the same shape is as good as one of these.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Union


class PluginStatus(str, Enum):
    """What came of a call, in the plugin's own judgement."""

    SUCCESS = "success"
    """It counts: a trajectory goes to the graders, rewards go to the trainer."""
    FAILURE = "failure"
    """Called again; after three more tries the job fails."""
    RETRY = "retry"
    """Called again; after three more tries the sample is dropped."""
    DISCARD = "discard"
    """The sample is dropped at once, with all its trajectories."""

    def __str__(self) -> str:
        return str(self.value)


Status = Union[PluginStatus, str]


class _Dumps:
    """`model_dump()` for results, as authors know it."""

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """The result as a plain dict."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]


@dataclass
class RolloutResult(_Dumps):
    """What a rollout returns; `None` means success.

    `extra` reaches the graders as `trajectory.extra`.
    """

    status: Status = PluginStatus.SUCCESS
    error: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class SingleGraderResult(_Dumps):
    """The score of one trajectory: a finite number. `metrics` is a flat `dict[str, float]`."""

    reward: float = None  # type: ignore[assignment]
    status: Status = PluginStatus.SUCCESS
    error: str = ""
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass
class GroupGraderResult(_Dumps):
    """The scores of a sample's trajectories, in their order.

    `metrics` is a flat `dict[str, float]`.
    """

    rewards: list[float] = field(default_factory=list)
    status: Status = PluginStatus.SUCCESS
    error: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
