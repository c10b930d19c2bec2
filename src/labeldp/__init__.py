"""Learn from private labels: features are public, labels are not.

>>> import labeldp as ldp
>>> mechanism = ldp.RandomizedResponse(domain=ldp.Classes(("no", "yes")), epsilon=1.0)
>>> round(mechanism.keep_probability, 3)
0.731

The names that most programs need stand here, all others in their rooms, such as `ldp.online.BatchedDartboard`.
"""

import lazy_loader

from labeldp._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
