/// Whole runs of one scenario, with the serial trainer and through tiers, to be
/// compared bit for bit.
#pragma once

#include "tests/support/toy_run.h"

namespace strata {

Trace RunSerial(const Scenario& scenario, int steps);

/// An incomplete trace, and a failure, if it ends early. `trainer` gets its weights
/// here.
Trace RunTiered(const ToyTrainer& toy, const Scenario& scenario, int steps);

}  // namespace strata
