"""ResNet50 with torchvision's key names, and SwAV's weights for it (He et al. 2016; Caron et al. 2020)."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from cual.encoders.base import Setup, encoders
from cual.encoders.images import ImageInput
from cual.encoders.torch_images import TorchImages, load_into, state_sha256
from cual.encoders.weights import Download, load_torch, weights_file

SWAV = Download(
    "https://dl.fbaipublicfiles.com/deepcluster/swav_800ep_pretrain.pth.tar",
    most_bytes=400 * 2**20,
    licence="CC BY-NC 4.0 (github.com/facebookresearch/swav)",
)
SWAV_INPUT = ImageInput(resize=256, crop=224, resample="bilinear", std=(0.228, 0.224, 0.225))
"""As SwAV's own evaluation has it, its 0.228 included."""
HEADS = ("projection_head.", "prototypes.", "fc.")


class Bottleneck(nn.Module):
    """1 × 1, 3 × 3 (which strides), 1 × 1, and a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    """(n, 3, h, w) to (n, 2048): the average pool before the classifier."""

    dim = 2048

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = _stage(64, 64, blocks=3, stride=1)
        self.layer2 = _stage(256, 128, blocks=4, stride=2)
        self.layer3 = _stage(512, 256, blocks=6, stride=2)
        self.layer4 = _stage(1024, 512, blocks=3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, stride=2, padding=1)
        return self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean(dim=(2, 3))


def _stage(inputs: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    first = Bottleneck(inputs, width, stride)
    return nn.Sequential(first, *(Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)))


def backbone(state: Mapping[str, Any]) -> dict[str, Any]:
    """The backbone's weights of a checkpoint: without `module.` and without the heads on top.

    >>> sorted(backbone({"module.conv1.weight": 1, "module.projection_head.0.weight": 2}))
    ['conv1.weight']
    """
    inner = state.get("state_dict", state)
    plain = {k.removeprefix("module."): v for k, v in inner.items()}
    return {k: v for k, v in plain.items() if not k.startswith(HEADS)}


@encoders.add("swav-resnet50")
def swav_resnet50(name: str, setup: Setup) -> TorchImages:
    """ResNet50 pre-trained by SwAV on ImageNet-1K without labels: the paper's main backbone, 2048-d."""
    file = weights_file(name, SWAV, setup)
    network, state = ResNet50(), backbone(load_torch(file))
    load_into(network, state, str(file))
    return TorchImages(name, network, ResNet50.dim, SWAV_INPUT, {}, state_sha256(state), setup)
