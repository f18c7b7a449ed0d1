"""What trains."""

from .training import pretrain as pretrain
