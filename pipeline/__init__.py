"""Data, from raw rows to packed token shards: one file per stage, each a plain function over files."""
