/// What a run's configuration came to, for people and for the next run:
/// --explain_config, and the "config" of report.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/run_config.h"

namespace strata {

/// The configuration as a DeepSpeed JSON. Together with FlagsOf it resolves to the same
/// RunConfig.
nlohmann::ordered_json EffectiveJson(const RunConfig& config);

/// What the JSON has no key for. Everything that is not at its default is set.
TrainFlags FlagsOf(const RunConfig& config);

/// "--max_steps 100 --seed 7", as a command line.
std::string FormatFlags(const TrainFlags& flags);

/// Every value with its source, what was ignored and why, the flags and the effective
/// JSON. All but the JSON are comments, so that the text is itself valid input.
std::string ExplainConfig(const ConfigResolution& resolution);

}  // namespace strata
