"""The loss of one batch, at all depths and widths."""

from __future__ import annotations

import losses
import torch
from student import WIDTH


class Loss:
    def __init__(self, options, space, device):
        self.options, self.space = options, space
        self.widths = tuple(int(w) for w in options.widths.split(","))
        weights = [float(w) for w in options.width_weights.split(",")][: len(self.widths)]
        self.width_weights = tuple(w / sum(weights) for w in weights)
        depths = torch.tensor([float(w) for w in options.depth_weights.split(",")])
        self.depths = (depths / depths.sum()).to(device)
        self.teacher_temperature = options.teacher_temperature or options.temperature

    def __call__(self, letter, vectors, rows, pairs):
        """The loss, and three numbers to show: it, the divergence, the distance to the targets."""
        o = self.options
        whole, target = self.space.whole[rows], self.space.target[rows].float()
        far = losses.away(vectors, target, self.depths)
        total, among = o.anchor * far, far.new_zeros(())
        if o.distil:
            targets = losses.spread(whole, self.teacher_temperature)
            among = losses.divergence(
                vectors, targets, self.depths, self.widths, self.width_weights, temperature=o.temperature
            )
            total = total + o.distil * among
        if o.across:
            total = total + o.across * losses.across(vectors, target, self.depths, o.temperature)
        if o.contrast and letter == "q":
            scores = (whole[:pairs] @ whole[pairs:].T).float()
            total = total + o.contrast * losses.contrast(
                vectors,
                scores,
                self.depths,
                (WIDTH, 128),
                temperature=o.contrast_temperature,
                margin=o.contrast_margin,
            )
        return total, torch.stack([total.detach(), among.detach(), far.detach()])
