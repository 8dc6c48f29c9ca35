"""All planted bugs, room after room."""

from __future__ import annotations

from tests.mutants.rooms import api, controller, replica, runtime, wiring

MUTANTS = (
    *api.MUTANTS,
    *runtime.MUTANTS,
    *replica.MUTANTS,
    *controller.MUTANTS,
    *wiring.MUTANTS,
)
