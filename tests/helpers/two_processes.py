"""Gradients of one batch with several objectives, as many processes as there are: run by test_training."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator, DistributedDataParallelKwargs

import demitasse as dt
from demitasse.data.sampler import Sampler, TextBatch
from demitasse.encoding.teacher_space import SpaceTeacher, TeacherSpace
from demitasse.objectives.protocol import Objective, Step
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training.batches import FromBank, Loader, Share, Tokenizing
from demitasse.training.gradients import Descent, Teaching
from demitasse.training.numbered_texts import number_texts
from demitasse.training.student import Student
from demitasse.training.teacher_vectors import TeacherVectors, write_vectors
from demitasse.training.text_bank import TextBank, read_tokens

OBJECTIVES = (
    dt.Matryoshka((8, 32)),
    dt.Espresso(8),
    dt.TwoDMSE(),
    dt.Elastic((8, 32), contrast=0.5),
    dt.Aligned(dims=(8, 32), contrast=0.5),
)
Drawn = tuple[TextBatch, Tokenizing | FromBank, Teaching]


def by_text(encoder: TorchEncoder, pairs: dt.Pairs, objective: Objective) -> Drawn:
    """A batch of texts, with vectors of a teacher in files."""
    batch, folder = Sampler(pairs, 16, 0).next(), Path(tempfile.mkdtemp())
    write_vectors(folder, "anchor", encoder, pairs, [batch])
    vectors = TeacherVectors(folder, "anchor")
    return batch, Tokenizing(encoder.reader, (), pool_prompt=True), Teaching(objective, dt.InfoNCE(), vectors, vectors)


def numbered(encoder: TorchEncoder, pairs: dt.Pairs, objective: Objective) -> Drawn:
    """A batch of numbers, with everything about their texts in a bank."""
    texts = number_texts(pairs)
    numbers = np.arange(len(texts))
    vectors = torch.from_numpy(encoder.encode([*texts.texts(numbers)]))
    space = TeacherSpace((SpaceTeacher("itself", "", 32, 1.0),), np.eye(32, dtype=np.float32), np.zeros(32, np.float32))
    tokens = read_tokens(texts, numbers, encoder.reader, (), pool_prompt=True)
    bank = TextBank(tokens, vectors, space, None, torch.device("cpu"))
    batch = Sampler(texts.data, 16, 0, key=texts.key).next()
    return batch, FromBank(bank), Teaching(objective, dt.InfoNCE(), bank=bank)


def main(base: str, data: str, out: str) -> None:
    accelerator = Accelerator(cpu=True, kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)])
    pairs = dt.read_pairs(data)
    encoder = dt.fit_exits(dt.load(base, device="cpu"), list(pairs.texts()), order=False, refine=False)
    share = Share(accelerator.process_index, accelerator.num_processes)
    found: dict[str, dict[str, torch.Tensor]] = {}
    losses = []
    for micro_batch in (None, 3):
        for objective in OBJECTIVES:
            student = Student(encoder, last_only=objective.last_only)
            student.eval()
            model = accelerator.prepare(student)
            batch, read, teaching = (numbered if isinstance(objective, dt.Aligned) else by_text)(
                encoder, pairs, objective
            )
            prepared = Loader(read, micro_batch, share).prepare(batch, {})
            losses.append(float(Descent(accelerator, model, teaching).add(prepared, Step(), 0)))
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
