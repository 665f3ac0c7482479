from __future__ import annotations

from pathlib import Path

import pytest

from demitasse import FolderError
from demitasse.encoding.block_files import TOKENIZER
from demitasse.encoding.tokenizer_errors import check_ids, told
from demitasse.host.bundled import BUILT_IN


@pytest.mark.parametrize(
    "content",
    ['{"vocab": {"a": 2147483647}}', '{"id":99999999 }', '{"a" :\n 12345678901234567890}', '{"é": 100000000}'],
)
def test_a_gigantic_id_is_refused(content: str) -> None:
    with pytest.raises(FolderError, match="has a token with the id"):
        check_ids(content.encode(), Path("tokenizer.json"))


@pytest.mark.parametrize(
    "content", ['{"a": 9999999}', '{"max_length": 2147483647}', '{"\\": 99999999": 3}', '{"score": 0.123456789012}']
)
def test_other_numbers_are_not(content: str) -> None:
    check_ids(content.encode(), Path("tokenizer.json"))


def test_real_tokenizers_pass() -> None:
    check_ids((BUILT_IN / TOKENIZER).read_bytes(), Path())


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_what_is_not_the_tokenizers_fault_is_passed_on(error: type[BaseException]) -> None:
    with pytest.raises(error), told("it fails"):
        raise error
