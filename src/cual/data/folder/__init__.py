"""Features folders: shards that memory-map, a table of rows beside each, one manifest. No encoding here.

Layout::

    FOLDER/manifest.json      width, type, encoder, and the shards that are whole, with their hashes
    FOLDER/000000.npy         (rows, width) features, float16 or float32
    FOLDER/000000.json        ids, labels, sources and stamps of those rows
    FOLDER/lock               held by whoever writes

A shard never changes once the manifest names it, and the manifest is replaced in one step: readers see what was
whole when they opened the folder, however a writer ends. A row whose id comes again later is replaced by it.
"""

from cual.data.folder.manifest import Made, Manifest, Shard, is_features_folder, read_manifest
from cual.data.folder.reading import FeaturesFolder, ShardedRows, reopen
from cual.data.folder.writing import FeaturesWriter, Part, row_table, write_part

__all__ = [
    "FeaturesFolder",
    "FeaturesWriter",
    "Made",
    "Manifest",
    "Part",
    "Shard",
    "ShardedRows",
    "is_features_folder",
    "read_manifest",
    "reopen",
    "row_table",
    "write_part",
]
