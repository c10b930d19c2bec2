"""Recipes by name: the paper's, for its networks and an accelerator, and short ones for a processor."""

from dataclasses import replace

from labeldp.networks.training import Recipe

_GRAY = Recipe(epochs=40, batch=256, peak=0.02, mixup=8.0, augment=("crop", "cutout"))
_COLOR = Recipe(epochs=200, batch=512, peak=0.4, decay="steps", mixup=8.0, augment=("crop", "flip", "cutout"))
_FINE = Recipe(epochs=200, batch=256, peak=0.2, decay="steps", mixup=8.0, augment=("crop", "flip", "cutout"))
_QUICK = Recipe(epochs=6, batch=256, peak=0.1, augment=("crop",))

PRESETS: dict[str, tuple[Recipe, ...]] = {
    "mnist": (_GRAY, replace(_GRAY, mixup=2.0)),
    "cifar10": (_COLOR, replace(_COLOR, mixup=4.0)),
    "cifar100": (_FINE, replace(_FINE, mixup=4.0)),
    "movielens": (Recipe(epochs=20, batch=128, peak=0.1, augment=()),),
    "quick": (_QUICK,),
}
"""A recipe for each stage, the last one for all that follow.

"mnist" (28 pixels: MNIST, Fashion-MNIST, KMNIST), "cifar10" and "cifar100" are the paper's, with a mixup inside the
range that it searched; it tuned mixup, sizes of stages and temperature for every epsilon on true labels, which is not
done here. "movielens" and "quick" are ours.

Source: Ghazi et al., Deep Learning with Label Differential Privacy, appendix F.
"""
