#!/usr/bin/env bash
# Feature files like those of docs/results.md, from public data: EuroSAT, CIFAR-100 and Places with a ResNet50.
#
# Usage: benchmarks/features.sh OUT
# Needs the internet: datasets and weights are fetched, as far as they are not there. BIN (the folder
# of cual and python; .venv/bin), DEVICE=auto and ENCODER can be set. What is done already is not done again: give the same
# command to go on. Then, for instance: cual bench run --preset shared-data --features-dir OUT --out results/shared-data
#
# These are not the bytes that the tables were measured on: which images of each class were drawn was not written down,
# and the weights of another ResNet50 with ImageNet's labels differ. Compare orders and distances, not digits. Places is
# places365-ood here, about 200 images of each of 50 classes; the tables have 50 classes of MiniPlaces.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
out=${1:?"usage: $0 OUT"}
bin=${BIN:-$here/.venv/bin}
device=${DEVICE:-auto}
encoder=${ENCODER:-hf:microsoft/resnet-50}
mkdir -p "$out"

make_features() { # dataset, images of each class (0: all), file
  local all=$out/.$3.features
  [ -e "$out/$3.npz" ] && return
  [ -d "$out/images/$1" ] || "$bin/cual" data get "$1" -o "$out/images/$1"
  "$bin/cual" embed "$out/images/$1" -o "$all" --encoder "$encoder" --device "$device"
  "$bin/python" - "$all" "$2" "$out/$3.npz" <<'PYTHON'
import sys

import numpy as np

from cual.data.files import read, write
from cual.data.table import Table

source, most, target = sys.argv[1], int(sys.argv[2]), sys.argv[3]
table = read(source)
labels = table.labels()
rng = np.random.default_rng(0)
rows = [rng.permutation(np.flatnonzero(labels == c))[: most or None] for c in np.unique(labels)]
chosen = np.sort(np.concatenate(rows))
names, y = np.unique(labels[chosen], return_inverse=True)
ids = np.array([str(table.ids[row]) for row in chosen]) if table.ids is not None else None
X = np.asarray(table.X[chosen]).astype(np.float16)
write(target, Table(X, y, ids, tuple(str(n) for n in names), table.encoder))
PYTHON
}

mkdir -p "$out/images"
make_features eurosat 1000 eurosat-r50
make_features cifar100-super 600 cifar100-super-r50
make_features places365-ood 200 places50-r50
