"""Canaries for ``evr.audit``: records of known gradients in a training by PyTorch, with Opacus or without."""

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from evr._basics import validate
from evr._records.inspecting import divisor
from evr.integrations.auditing import MISSING

_RECORD, _LEFT_OUT, _FIRST = 0, 1, 2  # what is written behind a record: its canary's number comes after these
_LOUD = 1000.0  # the norm of a canary's gradient before clipping, so that missing clipping shows


class Canaries:
    """Records that take part by fair coins, and their scores. The gradient of each is a coordinate of its own.

    The data set and the model know them; the training's loop stays as it is. A canary whose coin says no is a record
    that contributes nothing, so that the number of records says nothing either (zero-out adjacency). The scores satisfy
    U5 of docs/guarantees_audit.md.

    ``number`` says how many: 1,000 tell more than half of a true epsilon. ``included`` holds the coins.
    """

    def __init__(self, number: int) -> None:
        number = validate.positive_integer(number=number)
        self.included = np.random.default_rng().random(number) < 0.5
        self._seen: list[Any] = []
        self._shape: tuple[int, ...] = ()
        self._line = nn.Linear(number, 1, bias=False)
        nn.init.zeros_(self._line.weight)

    def dataset(self, data: Any) -> Any:
        """The data set with the canaries behind it. Its items are tuples, and begin with a tensor."""
        first, *rest = data[0]
        last = _FIRST + len(self.included)
        if torch.tensor(last).to(first.dtype).item() != last:
            raise TypeError(f"{first.dtype} does not hold the numbers of {len(self.included):,} canaries: use float32")
        self._shape = tuple(first.shape)
        codes = [_FIRST + k if is_in else _LEFT_OUT for k, is_in in enumerate(self.included)]
        canaries = [(_marked(torch.zeros_like(first), code), *rest) for code in codes]
        return torch.utils.data.ConcatDataset([_Marked(data), canaries])

    def model(self, model: Any) -> Any:
        """The model with a coordinate for each canary; give it to the optimizer and to ``make_private``."""
        return _WithCanaries(model, self._line, self)

    def watch(self, optimizer: Any, unit: float | None = None) -> None:
        """Look at every noisy gradient from here on.

        ``unit`` is what one whole record adds to it: the clipping norm over the divisor. An optimizer of Opacus knows.
        """
        if unit is None and not hasattr(optimizer, "max_grad_norm"):
            raise ValueError(MISSING.format("unit="))

        def look(*_: Any) -> None:
            one = unit or optimizer.max_grad_norm / divisor(optimizer, optimizer.accumulated_iterations)
            self._seen.append(-self._line.weight.grad[0].double().cpu().numpy() / one)

        getattr(optimizer, "original_optimizer", optimizer).register_step_pre_hook(look)

    def scores(self, noise_multiplier: float | None = None, sampling_probability: float = 1.0) -> Any:
        """A score for each canary, for ``evr.audit``.

        Without ``watch``, the final weights. With it, sums of the noisy gradients, or with the claimed noise multiplier
        log-likelihood ratios, which are the best scores there are.
        """
        if not self._seen:
            return self._line.weight.detach()[0].double().cpu().numpy()
        seen = np.array(self._seen)
        if noise_multiplier is None:
            return seen.sum(axis=0)
        noise = validate.positive(noise_multiplier=noise_multiplier)
        rate = validate.probability(sampling_probability=sampling_probability)
        ratios = (seen - 0.5) / noise**2
        return np.logaddexp(math.log1p(-rate) if rate < 1 else -math.inf, math.log(rate) + ratios).sum(axis=0)


def _marked(record: Any, code: int) -> Any:
    return torch.cat([record.flatten(), record.new_tensor([code])])


class _Marked(torch.utils.data.Dataset):  # type: ignore[misc, unused-ignore]
    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> Any:
        record, *rest = self._data[index]
        return (_marked(record, _RECORD), *rest)


class _WithCanaries(nn.Module):  # type: ignore[misc, unused-ignore]
    def __init__(self, model: Any, line: Any, canaries: Canaries) -> None:
        super().__init__()
        self.inner, self.line = model, line
        self._canaries = [canaries]

    def forward(self, marked: Any) -> Any:
        codes = marked[:, -1].long()
        numbers = torch.arange(_FIRST, _FIRST + self.line.in_features, device=codes.device)
        one_hot = (codes[:, None] == numbers).to(self.line.weight.dtype)
        out = self.inner(marked[:, :-1].reshape(-1, *self._canaries[0]._shape))
        return _Joined.apply(out, self.line(one_hot), codes == _RECORD)


class _Joined(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """Outputs of records alone; what flows back is theirs, and a loud constant for each canary."""

    @staticmethod
    def forward(ctx: Any, out: Any, signal: Any, is_record: Any) -> Any:
        shown = is_record.reshape(-1, *[1] * (out.dim() - 1)).to(out.dtype)
        ctx.save_for_backward(shown)
        return out * shown

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,), (shown,) = gradients, ctx.saved_tensors
        loud = -_LOUD * gradient.flatten(1).norm(dim=1, keepdim=True)
        return gradient * shown, loud, None
