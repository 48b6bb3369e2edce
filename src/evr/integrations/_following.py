"""What the callbacks of PyTorch's trainers have in common."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evr._records import Record, Recording, inspecting, record


class Follower:
    """A callback that records. Checkpoints hold where the record stood and what the accountant had counted; a training
    that is resumed from one continues its record. Arguments are those of ``evr.record``. After a training that ended in
    order, ``record`` is what ran: ``callback.record.certify(delta=1e-5)``.
    """

    def __init__(self, path: str | Path = "training.record.jsonl", engine: Any = None, **options: Any) -> None:
        self.path, self.engine, self.options = path, engine, options
        self.record: Record | None = None
        self._recording: Recording | None = None

    def begin(self, optimizer: Any, loader: Any, module: Any, state: Mapping[str, Any] | None) -> None:
        """Record from here on, from the state that a checkpoint holds if there is one, and watch a module."""
        options = {**self.options, "resume": True} if state else self.options
        if state and state["accountant"] is not None:
            inspecting.accountant_of(optimizer, self.engine).load_state_dict(state["accountant"])
        self._recording = record(optimizer, loader, self.path, engine=self.engine, **options)
        if state:
            self._recording.require(state["record"])
        self._recording.watch(module)

    def state_dict(self) -> dict[str, Any]:
        return {} if self._recording is None else self._recording.state_dict()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Finish the record: the training ended in order."""
        assert self._recording is not None
        self.record = self._recording.finish()

    def close(self) -> None:
        """Stop observing. A record that is not finished can be continued."""
        if self._recording is not None and self.record is None:
            self._recording.close()
