"""Kernels run in Triton's interpreter where there is no GPU: the same program, on the CPU."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernels are imported
