"""Gradients of one batch with several objectives, as many processes as there are: run by test_training."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs

import demitasse as dt
from demitasse.data.sampler import Sampler
from demitasse.objectives.protocol import Step
from demitasse.training.batches import Loader, Share
from demitasse.training.gradients import Descent, Teaching
from demitasse.training.student import Student
from demitasse.training.teacher_vectors import TeacherVectors, write_vectors


def main(base: str, data: str, out: str) -> None:
    accelerator = Accelerator(cpu=True, kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)])
    pairs = dt.read_pairs(data)
    encoder = dt.fit_exits(dt.load(base, device="cpu"), list(pairs.texts()), order=False, refine=False)
    share = Share(accelerator.process_index, accelerator.num_processes)
    found: dict[str, dict[str, torch.Tensor]] = {}
    losses = []
    for micro_batch in (None, 3):
        for objective in (dt.Matryoshka((8, 32)), dt.Espresso(8), dt.TwoDMSE(), dt.Elastic((8, 32), contrast=0.5)):
            student = Student(encoder, last_only=objective.last_only)
            student.eval()
            model = accelerator.prepare(student)
            batch = Sampler(pairs, 16, 0).next()
            prepared = Loader(encoder.reader, (), micro_batch, share, pool_prompt=True).prepare(batch, {})
            folder = Path(tempfile.mkdtemp())
            write_vectors(folder, "anchor", encoder, pairs, [batch])
            vectors = TeacherVectors(folder, "anchor")
            descent = Descent(accelerator, model, Teaching(objective, dt.InfoNCE(), vectors, vectors))
            losses.append(float(descent.add(prepared, Step(), 0)))
            name = f"{objective} {micro_batch}"
            found[name] = {
                part: parameter.grad.clone()
                for part, parameter in student.named_parameters()
                if parameter.grad is not None
            }
    if accelerator.is_main_process:
        torch.save({"loss": sum(losses), "gradients": found}, out)
    accelerator.end_training()


if __name__ == "__main__":
    main(*sys.argv[1:])
