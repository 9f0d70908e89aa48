/// What tierbench says: one table for people, one JSON (schema tierbench/1) for
/// programs.
#pragma once

#include <absl/strings/string_view.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/tierbench/phase.h"

namespace strata {

/// Something that makes a number mean less, or more, than it seems to.
struct Check {
  enum class Status : uint8_t { kPass, kWarn, kFail };
  std::string name;
  Status status = Status::kPass;
  std::string detail;
};

struct BenchReport {
  std::vector<std::string> command_line;
  nlohmann::ordered_json host = nlohmann::ordered_json::object();
  nlohmann::ordered_json targets = nlohmann::ordered_json::array();
  nlohmann::ordered_json gpus = nlohmann::ordered_json::array();
  nlohmann::ordered_json engine = nlohmann::ordered_json::object();
  std::vector<Check> checks;
  std::vector<Phase> phases;
  nlohmann::ordered_json tuned = nlohmann::ordered_json::object();
  nlohmann::ordered_json comparison = nlohmann::ordered_json::object();
  nlohmann::ordered_json plan = nlohmann::ordered_json::object();

  bool is_ok() const;
  const Phase* Find(absl::string_view phase) const;  // null if it was not measured
};

/// The table's head and one row of it, so that rows appear as they are measured.
std::string TableHead();
std::string TableRow(const Phase& phase);
/// Warnings and failures, one a line, and notes of phases; "" if there are none.
std::string ChecksText(const BenchReport& report);

std::string BenchJson(const BenchReport& report);

}  // namespace strata
