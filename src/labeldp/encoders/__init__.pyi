from .features import ImageShape as ImageShape
from .features import NetworkFeatures as NetworkFeatures
from .networks import ENCODERS as ENCODERS
from .networks import NetworkEncoder as NetworkEncoder
from .networks import public_encoder as public_encoder
