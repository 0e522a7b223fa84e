"""Files of the pipeline: atomic writes, the store of stage outputs, shards of documents, parallel
and resumable work.

Imports nothing of the pipeline but `errors`."""
