from .reading import ImageData as ImageData
from .reading import LabeledArrays as LabeledArrays
from .reading import names_images as names_images
from .reading import open_images as open_images
from .reading import open_unlabeled_images as open_unlabeled_images
