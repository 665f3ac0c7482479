from __future__ import annotations

from transformers import PreTrainedTokenizerFast

from demitasse.encoding.block_files import TOKENIZER
from demitasse.encoding.word_cache import WordCache
from demitasse.host.bundled import BUILT_IN
from demitasse.torch_model.hf_tokenizer import batch_tokenizer


def test_a_word_cache_leaves_the_tokenizer_that_is_saved_as_it_was() -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(BUILT_IN / TOKENIZER))
    tokenizer.backend_tokenizer.enable_truncation(7)
    before = tokenizer.backend_tokenizer.to_str()
    words = batch_tokenizer(tokenizer, 5)
    assert isinstance(words, WordCache)
    assert words.tokenize(["one two three four five six seven"]).lengths.tolist() == [5]
    assert tokenizer.backend_tokenizer.to_str() == before
    tokenizer.backend_tokenizer.enable_truncation(3)
    assert words.tokenize(["one two three four five six seven"]).lengths.tolist() == [5]
