"""Build networks: a compact one for CPUs, the two of the paper, one for tables and one for pairs of ids."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labeldp.privacy import InputError


class ConvUnit(nn.Sequential):  # type: ignore[misc]
    """Convolution, batch norm, ReLU."""

    def __init__(self, channels: int, width: int, kernel: int = 3, stride: int = 1) -> None:
        convolution = nn.Conv2d(channels, width, kernel, stride=stride, padding=kernel // 2, bias=False)
        super().__init__(convolution, nn.BatchNorm2d(width), nn.ReLU(inplace=True))


class Network(nn.Module):  # type: ignore[misc]
    """An encoder of inputs and a linear head.

    Args:
        encoder: maps inputs to embeddings, shape (n, width).
        width: the width of the embedding.
        classes: the number of classes, K.
    """

    def __init__(self, encoder: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(width, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits, shape (n, K)."""
        return self.head(self.encoder(inputs))

    @property
    def width(self) -> int:
        """The width of the embedding."""
        return int(self.head.in_features)


def compact_cnn(shape: tuple[int, ...], classes: int) -> Network:
    """Build a network of at most 150,000 parameters for images of 28 or 32 pixels, fast without an accelerator."""
    channels = _channels(shape)
    encoder = nn.Sequential(
        ConvUnit(channels, 32, 5, 2),
        ConvUnit(32, 48),
        nn.MaxPool2d(2),
        ConvUnit(48, 64),
        ConvUnit(64, 96),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
    )
    return Network(encoder, 96, classes)


class InceptionBlock(nn.Module):  # type: ignore[misc]
    """A 1 x 1 and a 3 x 3 convolution side by side."""

    def __init__(self, channels: int, narrow: int, wide: int) -> None:
        super().__init__()
        self.narrow = ConvUnit(channels, narrow, 1)
        self.wide = ConvUnit(channels, wide, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return both results, concatenated along the channels."""
        return torch.cat([self.narrow(inputs), self.wide(inputs)], dim=1)


def inception(shape: tuple[int, ...], classes: int) -> Network:
    """Build the small Inception for images of 28 pixels.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, appendix F.
    """
    layers: list[nn.Module] = [ConvUnit(_channels(shape), 96)]
    channels = 96
    for blocks, reduction in INCEPTION_STAGES:
        for narrow, wide in blocks:
            layers.append(InceptionBlock(channels, narrow, wide))
            channels = narrow + wide
        if reduction:
            layers.append(ConvUnit(channels, reduction, 3, 2))
            channels = reduction
    return Network(nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten()), channels, classes)


INCEPTION_STAGES = (
    (((32, 32), (32, 48)), 160),
    (((112, 48), (96, 64), (80, 80), (48, 96)), 240),
    (((176, 160), (176, 160)), 0),
)
"""For each stage, the two widths of each block, and the width of the convolution of stride 2 at its end; 0 for none."""


class ResidualBlock(nn.Module):  # type: ignore[misc]
    """Two 3 x 3 convolutions with norm and ReLU before each, added to their input.

    Source: He et al., Identity Mappings in Deep Residual Networks (2016).
    """

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels), nn.BatchNorm2d(width)])
        self.first = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        same = stride == 1 and channels == width
        self.shortcut = None if same else nn.Conv2d(channels, width, 1, stride=stride, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the input, or a projection of it, plus what the convolutions add."""
        active = torch.relu(self.norms[0](inputs))
        added = self.second(torch.relu(self.norms[1](self.first(active))))
        return added + (inputs if self.shortcut is None else self.shortcut(active))


def resnet18(shape: tuple[int, ...], classes: int) -> Network:
    """Build ResNet-18 V2 for images of 32 pixels: its first layer is one 3 x 3 convolution of stride 1.

    Source: Ghazi et al., Deep Learning with Label Differential Privacy, appendix F.
    """
    layers: list[nn.Module] = [nn.Conv2d(_channels(shape), 64, 3, padding=1, bias=False)]
    channels = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [ResidualBlock(channels, width, stride), ResidualBlock(width, width, 1)]
        channels = width
    layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return Network(nn.Sequential(*layers), channels, classes)


def mlp(shape: tuple[int, ...], classes: int) -> Network:
    """Build a network with two hidden layers, for tables and flattened images."""
    width = 256
    size = int(torch.Size(shape).numel())
    layers = [nn.Flatten(), nn.Linear(size, width), nn.BatchNorm1d(width), nn.ReLU(inplace=True)]
    layers += [nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(inplace=True)]
    return Network(nn.Sequential(*layers), width, classes)


class PairEncoder(nn.Module):  # type: ignore[misc]
    """The product of embeddings of user and item, next to a network on a second pair of embeddings.

    Source: Xiangnan He et al., Neural Collaborative Filtering (2017), section 3.4.
    """

    def __init__(self, counts: tuple[int, int]) -> None:
        super().__init__()
        width = 32
        self.factors = nn.ModuleList([nn.Embedding(count, width) for count in counts])
        self.profiles = nn.ModuleList([nn.Embedding(count, width) for count in counts])
        self.mixer = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        for table in (*self.factors, *self.profiles):
            nn.init.normal_(table.weight, std=0.05)

    def forward(self, pairs: Tensor) -> Tensor:
        """Return embeddings of pairs of ids, shape (n, 2 width)."""
        factors = [table(pairs[:, index]) for index, table in enumerate(self.factors)]
        profiles = [table(pairs[:, index]) for index, table in enumerate(self.profiles)]
        return torch.cat([factors[0] * factors[1], self.mixer(torch.cat(profiles, dim=1))], dim=1)


def collaborative(counts: tuple[int, ...], classes: int) -> Network:
    """Build the two-branch collaborative-filtering network on pairs (user, item).

    Args:
        counts: the numbers of users and of items.
        classes: the number of classes, K.
    """
    if len(counts) != 2:
        raise InputError("features must be pairs of ids, shape (n, 2), for the collaborative network")
    encoder = PairEncoder((counts[0], counts[1]))
    return Network(encoder, 2 * encoder.factors[0].embedding_dim, classes)


NETWORKS: dict[str, Callable[[tuple[int, ...], int], Network]] = {
    "cnn": compact_cnn,
    "inception": inception,
    "resnet18": resnet18,
    "mlp": mlp,
    "collaborative": collaborative,
}
"""Builders by name; each takes the shape of one input, (channels, height, width), (d,) or the counts of ids, and K."""


def build(name: str, shape: tuple[int, ...], classes: int, seed: int) -> Network:
    """Build a network with weights from a public seed.

    Raises:
        InputError: the name is unknown, or the network does not take inputs of this shape.
    """
    if name not in NETWORKS:
        raise InputError(f"network must be one of {', '.join(NETWORKS)}")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # of the CPU alone
        return NETWORKS[name](shape, classes)


def parameters(network: Any) -> int:
    """Return the number of trainable parameters."""
    return sum(weight.numel() for weight in network.parameters())


def _channels(shape: tuple[int, ...]) -> int:
    """Return the number of channels of images; raise InputError for anything else."""
    if len(shape) != 3 or shape[0] not in (1, 3) or min(shape[1:]) < 8:
        raise InputError(
            "features must be images, shape (n, h, w) or (n, h, w, 3), of at least 8 pixels a side; tables go to "
            'network="mlp"'
        )
    return shape[0]
