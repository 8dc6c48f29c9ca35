"""Blocking FeatureAdmin: ``client/administration/features.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.administration.features import FeatureUpgrade
from ottla.client.sync.face import Face

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.administration.features import FeatureAdmin as AsyncFeatureAdmin
    from ottla.client.administration.features import FeatureView
    from ottla.client.process.loop_thread import LoopThread


class FeatureAdmin(Face):
    """Administers the cluster's features; ``Admin.features``."""

    def __init__(self, inner: AsyncFeatureAdmin, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    def describe_features(self) -> list[FeatureView]:
        """List the features that the asked broker supports or that are finalized, by name.

        Raises:
            RequestRefused: The broker refused.
        """
        return self._run(self._inner.describe_features())

    def update_features(
        self,
        levels: Mapping[str, int],
        change: FeatureUpgrade = FeatureUpgrade.UPGRADE,
        *,
        validate_only: bool = False,
    ) -> None:
        """Set features to levels: all of them or none.

        Args:
            levels: The new level of each feature by name; 0 switches it off.
            change: Which changes are allowed; UPGRADE (default) refuses lower levels.
            validate_only: Only check the levels; False by default.

        Raises:
            RequestRefused: A level is not allowed.
        """
        self._run(self._inner.update_features(levels, change, validate_only=validate_only))
