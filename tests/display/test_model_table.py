from __future__ import annotations

from dataclasses import replace

import numpy as np

from demitasse import Cut, Encoder
from demitasse.display.model_table import describe, size_table
from demitasse.encoding.exits import Exit
from demitasse.encoding.teacher_space import SpaceTeacher, TeacherSpace


def with_exit(encoder: Encoder) -> Encoder:
    exit_ = Exit(np.ones((32, 32), np.float32), np.ones(32, np.float32))
    record = {"cuts": [{"cut": "1x32", "held_out": {"cosine": 0.9, "similarity": 0.875}}]}
    return replace(encoder, exits={1: exit_}, record=record)


def test_the_size_of_an_exit_depends_on_its_dims(encoder: Encoder) -> None:
    plain, elastic = encoder.model_bytes(Cut(1, 8)), with_exit(encoder).model_bytes(Cut(1, 8))
    assert elastic - plain == 4 * (8 * 32 + 8)
    assert encoder.model_bytes(Cut(3, 32)) == 4 * sum(p.numel() for p in encoder.backbone.model.parameters())


def test_each_depth_shows_its_exit_size_and_agreement(encoder: Encoder) -> None:
    facts = describe(with_exit(encoder))
    assert facts["exits"] == [1]
    assert {size["cut"] for size in facts["cuts"]} == {"0x32", "1x32", "2x32", "3x32"}
    table = size_table(facts).splitlines()
    (row,) = [line.split() for line in table if line.split()[:2] == ["1", "yes"]]
    assert row[-1] == "0.875"
    assert float(row[2]) == round(with_exit(encoder).model_bytes(Cut(1, 32)) / 1e6, 1)


def test_the_teachers_of_a_model_are_named(encoder: Encoder) -> None:
    teachers = (SpaceTeacher("nomic", "", 20, 0.6), SpaceTeacher("MiniLM", "", 12, 0.4))
    space = TeacherSpace(teachers, np.ones((32, 32), np.float32), np.ones(32, np.float32))
    assert (
        "aligned with nomic 60%, MiniLM 40%" in size_table(describe(replace(encoder, teacher_space=space))).splitlines()
    )
    assert "aligned" not in size_table(describe(encoder))


def test_a_cut_without_a_measure_is_shown(encoder: Encoder) -> None:
    """As in a manifest that says null."""
    told = replace(encoder, record={"cuts": [{"cut": "1x32", "held_out": None}, {"cut": "2x32"}]})
    assert "-" in size_table(describe(told))
