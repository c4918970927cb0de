#!/usr/bin/env bash
# Streams per minute when 1, 4 and 8 streams share a GPU. Usage: gpu_jobs.sh FEATURES.npz
set -euo pipefail
features=$1
for jobs in 1 4 8; do
  out=$(mktemp -d)
  start=$(date +%s.%N)
  python3 -m cual.bench run --features "$features" --methods cual --first 2 --increment 1 --budget 0.005 \
    --buffer 2500 --seeds 0,1,2,3,4,5,6,7 --device cuda --jobs "$jobs" --out "$out" >/dev/null
  end=$(date +%s.%N)
  awk -v j="$jobs" -v s="$start" -v e="$end" 'BEGIN {printf "jobs %d: %.1f streams per minute\n", j, 8 * 60 / (e - s)}'
  rm -rf "$out"
done
