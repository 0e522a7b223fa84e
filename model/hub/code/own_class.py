"""The class of a model; an export writes this file anew, with the class that it is of."""

from torch import nn


class OwnClass(nn.Module):
    """Stand for the class."""
