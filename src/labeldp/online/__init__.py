"""One round at a time: experts, convex losses, what they cost, and regret."""

from labeldp.online.kernel import Actions, Kernel, Losses

__all__ = ["Actions", "Kernel", "Losses"]
