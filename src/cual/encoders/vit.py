"""ViT-S/16 with DINO's key names, and features from any of its blocks (Dosovitskiy 2021; Caron et al. 2021)."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cual.encoders.base import Setup, encoders, full_name
from cual.encoders.images import ImageInput
from cual.encoders.torch_images import TorchImages, check_choice, load_into, state_sha256
from cual.encoders.weights import Download, load_torch, weights_file
from cual.errors import BadOption

DINO = Download(
    "https://dl.fbaipublicfiles.com/dino/dino_deitsmall16_pretrain/dino_deitsmall16_pretrain.pth",
    most_bytes=200 * 2**20,
    licence="Apache-2.0 (github.com/facebookresearch/dino)",
)
PATCH, WIDTH, DEPTH, HEADS, GRID = 16, 384, 12, 6, 14
LARGEST = 1024
"""Side of an image; attention takes memory with its fourth power."""


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, _ = x.shape
        q, k, v = self.qkv(x).view(n, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(n, tokens, WIDTH))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(WIDTH, 4 * WIDTH)
        self.fc2 = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.attn = Attention()
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.mlp = Mlp()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x)


class ViTS16(nn.Module):
    """(n, 3, h, w) to the tokens of all blocks up to one: class token first, then patches row by row.

    Images of another size than 224 get their position embeddings interpolated bicubically to the new grid (as
    transformers does it; DINO's own code stretches the grid by 0.1 of a patch, a guard against rounding).
    """

    def __init__(self) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + GRID * GRID, WIDTH))
        self.patch_embed = PatchEmbed()
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)

    def forward(self, x: Tensor, block: int = DEPTH - 1) -> Tensor:
        """Tokens after block `block`, counted from 0 as in the checkpoint; the last one's are normalised."""
        patches = self.patch_embed(x)
        tokens = patches.flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(len(x), -1, -1), tokens], dim=1)
        tokens = tokens + self.positions(patches.shape[2], patches.shape[3])
        for layer in self.blocks[: block + 1]:
            tokens = layer(tokens)
        return self.norm(tokens) if block == DEPTH - 1 else tokens

    def positions(self, rows: int, columns: int) -> Tensor:
        """Position embeddings for a grid of patches."""
        if (rows, columns) == (GRID, GRID):
            return self.pos_embed
        grid = self.pos_embed[:, 1:].transpose(1, 2).reshape(1, WIDTH, GRID, GRID)
        grid = F.interpolate(grid, size=(rows, columns), mode="bicubic", align_corners=False)
        return torch.cat([self.pos_embed[:, :1], grid.flatten(2).transpose(1, 2)], dim=1)


class BlockFeatures(nn.Module):
    """Tokens of one block as one vector: patches averaged over squares of `pool`², the class token, or both."""

    def __init__(self, vit: ViTS16, block: int, pool: int, tokens: str) -> None:
        super().__init__()
        self.vit, self.block, self.pool, self.tokens = vit, block, pool, tokens

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.vit(x, self.block)
        cls, patches = tokens[:, 0], tokens[:, 1:]
        if self.tokens == "class":
            return cls
        grid = patches.transpose(1, 2).reshape(len(x), WIDTH, x.shape[2] // PATCH, x.shape[3] // PATCH)
        pooled = F.avg_pool2d(grid, self.pool).flatten(1)
        return pooled if self.tokens == "patches" else torch.cat([cls, pooled], dim=1)


def backbone(state: Mapping[str, Any]) -> dict[str, Any]:
    """The backbone's weights of a checkpoint, of the backbone alone or of a whole training run's teacher."""
    inner = state.get("teacher", state)
    plain = {k.removeprefix("module.").removeprefix("backbone."): v for k, v in inner.items()}
    return {k: v for k, v in plain.items() if not k.startswith("head.")}


DEFAULTS = {"block": 9, "pool": 2, "tokens": "patches", "size": 224}


@encoders.add("dino-vits16")
def dino_vits16(
    name: str, setup: Setup, *, block: int = 9, pool: int = 2, tokens: str = "patches", size: int = 224
) -> TorchImages:
    """ViT-S/16 pre-trained by DINO on ImageNet-1K without labels.

    Parameters
    ----------
    block
        Whose output to take, counted from 0 as in the checkpoint; the paper's best is 9.
    pool
        Patches are averaged over squares of this side; the paper's best is 2, which gives 18,816-d.
    tokens
        "patches", "class" (384-d) or "both".
    size
        Side of the image.
    """
    check_choice("tokens", tokens, ("patches", "class", "both"))
    check_choice("block", block, range(DEPTH))
    if size % PATCH or not PATCH <= size <= LARGEST:
        raise BadOption(f"size is {size}; it is a multiple of {PATCH}, up to {LARGEST}")
    if not 1 <= pool <= size // PATCH:
        raise BadOption(
            f"pool is {pool}; of {size // PATCH} × {size // PATCH} patches it can be 1 to {size // PATCH}"
        )
    options = {"block": block, "pool": pool, "tokens": tokens, "size": size}
    spec = full_name(name, options, DEFAULTS)
    file = weights_file(spec, DINO, setup)
    vit, state = ViTS16(), backbone(load_torch(file))
    load_into(vit, state, str(file))
    patches = WIDTH * (size // PATCH // pool) ** 2
    dim = {"patches": patches, "class": WIDTH, "both": WIDTH + patches}[tokens]
    given = ImageInput(resize=math.ceil(size * 256 / 224), crop=size)
    network = BlockFeatures(vit, block, pool, tokens)
    return TorchImages(spec, network, dim, given, options, state_sha256(state), setup)
