"""Locks of this package across ``os.fork``: a forked child has no thread that would give back what another one holds."""

from __future__ import annotations

import os
from typing import Any


def free_in_children(lock: Any) -> None:
    """A fork waits for the lock, so that it is free in the child and what it guards is whole."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
