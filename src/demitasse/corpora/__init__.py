"""Corpora: files of any size turned into a dataset of vectors, shard by shard, so that nothing is done twice."""
