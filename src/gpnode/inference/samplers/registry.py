"""The methods there are: their names in problem files."""

from __future__ import annotations

from gpnode._registry import Registry
from gpnode.inference.samplers.base import Method
from gpnode.inference.samplers.laplace import Laplace
from gpnode.inference.samplers.lifted.sampler import Lifted
from gpnode.inference.samplers.nuts import NUTS

METHODS: Registry[Method] = Registry("method", Lifted, NUTS, Laplace)
