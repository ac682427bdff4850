"""Plans for jax.checkpoint: which named values (jax.ad_checkpoint.checkpoint_name) are kept for the backward half.

``names`` writes the step of a loss function, which ``memopt plan --emit jax`` plans.
"""

from __future__ import annotations

from memopt.jax._names import names

__all__ = ["names"]
