"""The networks have the sizes and the layers that they are said to have."""

import pytest
import torch

from labeldp.networks import NETWORKS, build, parameters
from labeldp.privacy import InputError


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_the_compact_network_is_compact(shape: tuple[int, ...]) -> None:
    assert parameters(build("cnn", shape, 10, 0)) <= 150_000


@pytest.mark.parametrize(
    ("name", "shape"),
    [("cnn", (1, 28, 28)), ("inception", (1, 28, 28)), ("resnet18", (3, 32, 32)), ("mlp", (7,)), ("mlp", (1, 28, 28))],
)
def test_logits_and_embeddings_have_their_shapes(name: str, shape: tuple[int, ...]) -> None:
    network = build(name, shape, 5, 0).eval()
    inputs = torch.rand(2, *shape)
    assert network(inputs).shape == (2, 5)
    assert network.encoder(inputs).shape == (2, network.width)


def test_the_inception_has_the_paper_s_layers() -> None:
    network = build("inception", (1, 28, 28), 10, 0)
    widths = [layer.out_channels for layer in network.modules() if isinstance(layer, torch.nn.Conv2d)]
    pairs = [32, 32, 32, 48], [112, 48, 96, 64, 80, 80, 48, 96], [176, 160, 176, 160]
    assert widths == [96, *pairs[0], 160, *pairs[1], 240, *pairs[2]]
    assert network.width == 336
    # 3 x 3 and 1 x 1 weights, two numbers of each norm, the head: counted by hand from the widths.
    blocks = [(96, 32, 32), (64, 32, 48), (160, 112, 48), (160, 96, 64), (160, 80, 80), (160, 48, 96)]
    blocks += [(240, 176, 160), (336, 176, 160)]
    weights = 9 * 96 + 9 * 80 * 160 + 9 * 144 * 240 + sum(c * (a + 9 * b) for c, a, b in blocks)
    assert parameters(network) == weights + 2 * sum(widths) + 336 * 10 + 10


def test_the_residual_network_has_eighteen_layers_and_eleven_million_weights() -> None:
    network = build("resnet18", (3, 32, 32), 10, 0)
    convolutions = [layer for layer in network.modules() if isinstance(layer, torch.nn.Conv2d)]
    assert sum(layer.kernel_size == (3, 3) for layer in convolutions) == 17  # and the head is the eighteenth
    assert (convolutions[0].stride, convolutions[0].kernel_size) == ((1, 1), (3, 3))
    # Two 3 x 3 convolutions and two norms a block, a projection where the width changes; the first layer, norm, head.
    blocks = [(64, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 512), (512, 512)]
    inner = sum(9 * c * w + 9 * w * w + 2 * c + 2 * w + (c * w if c != w else 0) for c, w in blocks)
    assert parameters(network) == 9 * 3 * 64 + inner + 2 * 512 + 512 * 10 + 10


def test_the_collaborative_network_takes_pairs_of_ids() -> None:
    network = build("collaborative", (6, 4), 5, 0)
    pairs = torch.tensor([[0, 0], [5, 3], [5, 0]])
    logits = network(pairs)
    assert logits.shape == (3, 5)
    network.encoder.factors[0].weight.data[5] += 1
    changed = (network(pairs) != logits).any(dim=1)
    assert changed.tolist() == [False, True, True]


def test_the_same_seed_gives_the_same_weights() -> None:
    first, second, third = (build("cnn", (1, 28, 28), 10, seed).head.weight for seed in (3, 3, 4))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("vgg", (1, 28, 28), f"network must be one of {', '.join(NETWORKS)}"),
        ("cnn", (7,), "features must be images"),
        ("resnet18", (2, 28, 28), "features must be images"),
        ("inception", (1, 4, 28), "at least 8 pixels"),
        ("collaborative", (1, 28, 28), "pairs of ids"),
    ],
)
def test_wrong_names_and_shapes_are_refused(name: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(name, shape, 10, 0)
