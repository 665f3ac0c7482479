from __future__ import annotations

import pytest
import torch

from demitasse.training.muon import Muon, orthogonal


@pytest.mark.parametrize("shape", [(8, 8), (5, 20), (20, 5), (3, 6, 4)])
def test_singular_values_come_close_to_one(shape: tuple[int, ...]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    values = torch.linalg.svdvals(orthogonal(matrices))
    assert values.min() > 0.5
    assert values.max() < 1.3


def test_directions_are_kept() -> None:
    """The nearest orthogonal matrix is U V' of the singular value decomposition."""
    matrix = torch.randn(16, 24, generator=torch.Generator().manual_seed(2))
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    ours = orthogonal(matrix)
    assert torch.cosine_similarity(ours.flatten(), (left @ right).flatten(), dim=0) > 0.97


def test_it_is_torchs_muon() -> None:
    first = [torch.randn(shape, generator=torch.Generator().manual_seed(3)) for shape in ((12, 12), (12, 12), (6, 30))]
    ours = [torch.nn.Parameter(matrix.clone()) for matrix in first]
    theirs = [torch.nn.Parameter(matrix.clone()) for matrix in first]
    mine = Muon([{"params": ours, "lr": 0.01, "weight_decay": 0.1}])
    peer = torch.optim.Muon(theirs, lr=0.01, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    generator = torch.Generator().manual_seed(4)
    for _ in range(5):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn(a.shape, generator=generator)
            b.grad = a.grad.clone()
        mine.step()
        peer.step()
    for a, b, begun in zip(ours, theirs, first, strict=True):
        assert (a - b).norm() < 0.03 * (a - begun).norm()  # theirs iterates in bf16


def test_it_resumes_from_its_state() -> None:
    def run(stop_after: int | None) -> torch.Tensor:
        matrix = torch.nn.Parameter(torch.eye(4))
        optimizer = Muon([{"params": [matrix], "lr": 0.1}])
        for step in range(6):
            if step == stop_after:
                saved = optimizer.state_dict()
                optimizer = Muon([{"params": [matrix], "lr": 0.1}])
                optimizer.load_state_dict(saved)
            matrix.grad = torch.sin(torch.arange(16.0).reshape(4, 4) * (step + 1))
            optimizer.step()
        return matrix.detach()

    assert torch.equal(run(None), run(3))
